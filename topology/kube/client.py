"""The wire, by the `kubernetes` client: kubeconfig, TLS and credentials are its business.

Importing this costs 0.6 s and 48 MB, so `live.connect` does it late. Paths are ours, hence nothing
is discovered; objects stay plain dictionaries, since its typed models cost another 90 MB.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from kubernetes.dynamic import DynamicClient
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from portal.core.errors import ClusterAway
from topology.kube.wire import ApiError, Backoff, Obj, Request

CONNECTIONS = 32  # release_all opens 16 at a time, and the watches hold one each
TRIES = 4
CONNECT_SECONDS, READ_SECONDS = 3.0, 20.0
_CHUNK = 65_536
_LATER = frozenset({408, 429, 500, 502, 503, 504})


class _NoDiscovery:
    """The dynamic client insists on one; we know our paths."""

    def __init__(self, client: Any, cache_file: Any) -> None:
        pass


class KubernetesWire:
    def __init__(
        self, kubeconfig_path: str, *, tries: int = TRIES, read_seconds: float = READ_SECONDS
    ) -> None:
        """kubeconfig_path: empty inside the cluster. ClusterAway when there is no way in.

        tries, read_seconds: of each call before the cluster is taken to be away.
        """
        self._tries, self._read_seconds = tries, read_seconds
        settings = Configuration()
        try:
            if kubeconfig_path:
                config.load_kube_config(
                    kubeconfig_path, client_configuration=settings, persist_config=False
                )
            else:
                config.load_incluster_config(client_configuration=settings)
        except (ConfigException, OSError) as error:
            raise ClusterAway(f"no way into the cluster: {error}") from error
        except (ValueError, YAMLError) as error:  # whose words may quote what is secret
            raise ClusterAway("no way into the cluster: its kubeconfig cannot be read") from error
        settings.connection_pool_maxsize = CONNECTIONS
        settings.retries = False  # ours know which calls may be made twice
        settings.proxy = settings.proxy  # said once: else each call reads the environment for it
        self._client = DynamicClient(ApiClient(settings), discoverer=_NoDiscovery)

    def ask(self, request: Request) -> Obj:
        backoff = Backoff(first=0.1, most=2.0)
        for _ in range(self._tries - 1):
            try:
                return self._ask_once(request)
            except ClusterAway:
                time.sleep(backoff.seconds())
        return self._ask_once(request)

    def read(self, request: Request, *, most: int, within_seconds: float) -> bytes:
        until = time.monotonic() + within_seconds
        response = self._send(request, read_seconds=within_seconds)
        found = bytearray()
        try:
            for chunk in response.stream(amt=_CHUNK):
                found += chunk
                if len(found) >= most or time.monotonic() > until:
                    break
        except (HTTPError, OSError) as error:
            raise ClusterAway(f"the cluster's answer broke off: {error}") from error
        finally:
            response.close()
        return bytes(found[:most])

    def follow(self, request: Request, *, quiet_seconds: float) -> "_Lines":
        return _Lines(self._send(request, read_seconds=quiet_seconds))

    def _ask_once(self, request: Request) -> Obj:
        try:
            answer = json.loads(self._send(request, read_seconds=self._read_seconds).data)
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterAway(f"the cluster's answer broke off: {error}") from error
        return dict(answer)

    def _send(self, request: Request, *, read_seconds: float) -> BaseHTTPResponse:
        try:
            response: BaseHTTPResponse = self._client.request(
                request.method,
                request.path,
                body=request.body,
                query_params=list(request.query.items()),
                content_type=request.kind,
                serialize=False,
                _request_timeout=(CONNECT_SECONDS, read_seconds),
            )
        except ApiException as error:
            raise _refusal(error) from error
        except (HTTPError, OSError) as error:
            raise ClusterAway(f"the cluster does not answer: {error}") from error
        except ValueError:  # of a header, whose words quote the token
            raise ClusterAway("what the kubeconfig says cannot be sent to a cluster") from None
        return response


class _Lines:
    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in self._response.stream(amt=_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterAway(f"the watch broke off: {error}") from error
        finally:
            self._response.close()

    def close(self) -> None:
        """A reader may sit in recv, holding the lock that closing wants: shut the socket first."""
        connection = getattr(self._response, "connection", None)
        open_socket = getattr(connection, "sock", None)
        if open_socket is not None:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)


def _refusal(error: ApiException) -> Exception:
    """What a refusal means to us: come back later, or no."""
    status = int(error.status or 0)
    try:
        said = json.loads(error.body or "{}")
    except ValueError:
        said = {}
    message = str(said.get("message") or error.reason or f"HTTP {status}")
    reason = str(said.get("reason") or "")
    is_busy = status in _LATER and reason != "Expired"
    is_race = status == 409 and reason == "Conflict"  # noqa: PLR2004 - HTTP's number
    if status == 0 or is_busy or is_race:
        return ClusterAway(f"the cluster asks to come back later: {message}")
    return ApiError(status, reason=reason, message=message)
