"""A bad line between Muster and the API server: a proxy on loopback that does what lines do."""

import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

from portal.embedded import ports
from topology.kube import names

WATCH_SECONDS = 10.0  # the longest that a watch lasts, whatever the weather
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
CHANGES = {"POST", "PATCH", "DELETE"}
_BUSY = (429, 500, 503, 504)
_RACE = {"status": "Failure", "reason": "Conflict", "code": 409, "message": "it was changed"}


@dataclass
class Weather:
    """How the line is. Shares are of calls, from 0 to 1.

    slow: wait up to a quarter of a second. fails: are not answered, or with "later" or "race",
    before or after the API server has done what they ask. strays: changes that break off, and come
    to the API server seconds later, when nobody counts on them.
    watch_seconds: how long a watch may last.
    away_until: nobody answers, until then on the monotonic clock.
    at_gate: called with the path of a pod and its node to be, before its gate is opened.
    """

    random: Random
    slow: float = 0.0
    fails: float = 0.0
    strays: float = 0.0
    watch_seconds: float = WATCH_SECONDS
    away_until: float = 0.0
    at_gate: object = None
    astray: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fate(self, method):
        """How one call goes: what happens before it, and after the API server has answered it.

        "" is nothing, "cut" the end of the connection, "stray" that and a wait, else a status.
        """
        with self.lock:
            if time.monotonic() < self.away_until:
                return 0.0, "cut", ""
            if method in CHANGES and self.random.random() < self.strays:
                return self.random.uniform(0.5, 4), "stray", ""
            wait = self.random.uniform(0, 0.25) if self.random.random() < self.slow else 0.0
            if self.random.random() >= self.fails:
                return wait, "", ""
            statuses = [*_BUSY, 409] if method in CHANGES else _BUSY
            trouble = self.random.choice(["cut", "cut", self.random.choice(statuses)])
            before = self.random.random() < 0.5
            return (wait, trouble, "") if before else (wait, "", trouble)

    def lasts(self):
        """How long the next watch does, in seconds."""
        with self.lock:
            return self.random.uniform(0.2, 1.0) * self.watch_seconds

    def note_gate(self, path, body):
        """Tell whoever wants to know that a gate is about to be opened."""
        node = next((op["value"][names.HOSTNAME] for op in body if _pins(op)), None)
        if node is not None and self.at_gate is not None:
            self.at_gate(path, node)


def _pins(operation):
    return operation.get("path") == "/spec/nodeSelector" and operation["op"] == "add"


class Line(ThreadingHTTPServer):
    """url: where Muster finds the API server. weather: may be changed at any time."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, plane):
        super().__init__((ports.HOST, 0), _Call)
        self.url = f"http://{ports.HOST}:{self.server_address[1]}"
        self.weather = Weather(Random(0))  # noqa: S311 - hides nothing
        self._upstream = urllib.parse.urlsplit(plane.url).netloc
        self._context = ssl.create_default_context(cafile=plane.api.ca)

    def kubeconfig(self, token):
        """What leads a client here, as somebody with that token."""
        named = {"name": "chaos"}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "chaos",
                "clusters": [named | {"cluster": {"server": self.url}}],
                "users": [named | {"user": {"token": token}}],
                "contexts": [named | {"context": {"cluster": "chaos", "user": "chaos"}}],
            }
        )

    def connection(self):
        """A new one to the API server."""
        return http.client.HTTPSConnection(self._upstream, timeout=30, context=self._context)

    def handle_error(self, request, client_address):
        """Connections that break off are what this is for."""


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self._api = self.server.connection()

    def finish(self):
        self._api.close()
        with suppress(OSError):
            super().finish()

    def log_message(self, *_arguments):
        """Nobody reads it."""

    def _handle(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wait, before, after = self.server.weather.fate(self.command)
        if before == "stray":
            self._go_astray(body, wait)
            return
        time.sleep(wait)
        if before:
            self._fail(before)
            return
        if self.command == "PATCH" and "/pods/" in self.path:
            self.server.weather.note_gate(self.path, json.loads(body))
        answer = self._ask(body)
        if "watch=true" in self.path and answer.status == 200:
            self._stream(answer)
            return
        said = answer.read()
        if after:
            self._fail(after)
        else:
            self._answer(answer.status, said, answer.headers.get("Content-Type", ""))

    do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - names that http.server asks for

    def _go_astray(self, body, seconds):
        weather = self.server.weather
        with weather.lock:
            weather.astray += 1
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        with suppress(OSError, http.client.HTTPException):
            self._ask(body).read()
        with weather.lock:
            weather.astray -= 1

    def _ask(self, body):
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"
        self._api.request(self.command, self.path, body=body or None, headers=headers)
        return self._api.getresponse()

    def _fail(self, trouble):
        if trouble == "cut":
            self.close_connection = True
            return
        said = {"kind": "Status", "status": "Failure", "code": trouble, "message": "a bad line"}
        said |= _RACE if trouble == 409 else {}
        self._answer(trouble, json.dumps(said).encode(), "application/json")

    def _answer(self, status, said, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _stream(self, answer):
        """The lines of a watch, until it has lasted as long as it may; the end may tear one."""
        self.close_connection = True
        lasts = self.server.weather.lasts()
        until = time.monotonic() + lasts
        self._api.sock.settimeout(lasts)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError, http.client.HTTPException):
            while line := answer.readline():
                is_over = time.monotonic() > until
                said = line[: len(line) // 2] if is_over else line
                self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
                if is_over:
                    return


@contextmanager
def running_line(plane):
    """A line to the control plane, as long as the block lasts."""
    line = Line(plane)
    thread = threading.Thread(target=line.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        line.shutdown()
        line.server_close()
        thread.join()
