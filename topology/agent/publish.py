"""Writes labels and annotations to the node's own object, with what a pod is given for that.

The agent has no Kubernetes client: one kind of request does not pay for the memory of one.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN, CERTIFICATES = _ACCOUNT / "token", _ACCOUNT / "ca.crt"
_TIMEOUT_SECONDS: Final = 10.0


class NotPublishedError(Exception):
    """The API server could not be reached, or refused."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the node's object is.

    token: file with the token of who asks, None for nobody. certificates: file with those that the
    server's is checked against, None for a server without TLS.
    """

    host: str
    port: int
    token: Path | None = TOKEN
    certificates: Path | None = CERTIFICATES

    def patch_node(self, name: str, patch: dict[str, Any]) -> None:
        """Merge `patch` into the metadata of a node. Raises NotPublishedError."""
        try:
            connection = self._connect()
            try:
                body = json.dumps({"metadata": patch})
                path = f"/api/v1/nodes/{quote(name, safe='')}"
                connection.request("PATCH", path, body, self._headers())
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise NotPublishedError(str(error)) from error
        if answer.status != http.HTTPStatus.OK:
            raise NotPublishedError(f"{answer.status}: {text[:200]}")

    def _connect(self) -> http.client.HTTPConnection:
        if self.certificates is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_SECONDS)
        context = ssl.create_default_context(cafile=str(self.certificates))
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def _headers(self) -> dict[str, str]:
        """The token is read each time: the kubelet renews it."""
        headers = {"Content-Type": "application/merge-patch+json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.read_text().strip()}"
        return headers
