"""One POST to an address that somebody gave us: to the outside alone, and nowhere else.

Who names the address is not trusted with our network. So the name is resolved once, every address
that it has must be of the public internet, and the connection goes to the address that was
looked at: a name that changes its mind between the look and the call gains nothing. Redirects
are not followed, and of the answer nothing but numbers is kept.
"""

import http.client
import ipaddress
import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from portal.core.errors import Refused

STEP_SECONDS = 5  # to connect, and between two packets
WHOLE_SECONDS = 10
MOST_READ = 4096  # bytes of the answer
LONGEST_URL = 2000
_GOOD = range(200, 300)
# Chat services answer 200 whatever happens, and say in one of these how it went: 0 is well.
_CODES = ("errcode", "code", "StatusCode")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotTaken(Exception):
    """The other side did not take it; the message is ours, and shows nothing of its answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a POST goes. path: with the query. addresses: that the name has now, all looked at."""

    is_tls: bool
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]


def look_at(url: str) -> Target:
    """Where `url` leads. Raises Refused where it leads to nowhere that we may write to."""
    if len(url) > LONGEST_URL or not url.isascii() or any(c.isspace() or c < " " for c in url):
        raise _refused(_("This is no address: paste it as the chat shows it."))
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        raise _refused(_("This is no address: paste it as the chat shows it.")) from None
    if parts.scheme not in {"https", "http"} or not host:
        raise _refused(_("The address begins with https://."))
    if parts.username is not None or parts.password is not None:
        raise _refused(_("An address with a user name in it is not taken."))
    is_ours = host in settings.WEBHOOK_INTERNAL_HOSTS
    is_tls = parts.scheme == "https"
    if not is_tls and not is_ours:
        raise _refused(_("The address begins with https://."))
    port = port or (443 if is_tls else 80)
    addresses = _resolve(host, port)
    if not is_ours and not all(is_public(ipaddress.ip_address(each)) for each in addresses):
        raise _refused(
            _("This address leads into a private network; an operator can allow its host.")
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(is_tls, host, port, path, addresses)


def is_public(address: IpAddress) -> bool:
    """Whether it is of the public internet, also where an IPv4 address is wrapped in it."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            wrapped.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(inner is not None and not is_public(inner) for inner in wrapped):
            return False
        if address.ipv4_mapped is not None:
            return True
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not is_special


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send `body`. Raises NotTaken, also where `url` leads somewhere it may not by now."""
    try:
        target = look_at(url)
    except Refused as refusal:
        raise NotTaken(str(refusal)) from None
    connection = _Pinned(target)
    guard = Timer(WHOLE_SECONDS, connection.cut)  # an answer that drips has no end of its own
    guard.start()
    try:
        connection.request("POST", target.path, body, dict(headers))
        with connection.getresponse() as answer:
            said = answer.read(MOST_READ)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotTaken(_words(error)) from None
    finally:
        guard.cancel()
        connection.close()
    _judge(answer.status, said)


def _judge(status: int, said: bytes) -> None:
    if status not in _GOOD:
        raise NotTaken(_("It answered with the status %(status)d.") % {"status": status})
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        return
    for name in _CODES if isinstance(answer, dict) else ():
        code = answer.get(name, 0)
        if isinstance(code, int) and code != 0:
            raise NotTaken(_("It answered with the error %(code)d.") % {"code": code})


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _("Its certificate is not trusted.")
    if isinstance(error, TimeoutError):
        return _("It did not answer in time.")
    return _("It could not be reached.")


def _resolve(host: str, port: int) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _refused(_("No machine of that name is known.")) from None
    addresses = dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)
    if not addresses:
        raise _refused(_("No machine of that name is known."))
    return tuple(addresses)


def _refused(message: str) -> Refused:
    return Refused(message, field="url")


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was looked at, whatever the name says meanwhile."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.host, target.port, timeout=STEP_SECONDS)
        self._target = target
        self._wire: socket.socket | None = None  # `sock` is forgotten before the answer is read
        self.default_port = 443 if target.is_tls else 80  # else the Host header names the port

    def connect(self) -> None:
        target = self._target
        address = (target.addresses[0], target.port)
        self.sock = self._wire = socket.create_connection(address, timeout=STEP_SECONDS)
        if target.is_tls:
            self.sock = self._wire = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=target.host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()

    def cut(self) -> None:
        """End it from another thread: whoever reads or writes there gets an error at once."""
        if self._wire is not None:
            with suppress(OSError):  # it has ended by itself
                self._wire.shutdown(socket.SHUT_RDWR)
