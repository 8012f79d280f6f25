"""A simulated cluster in a thread of the calling process, for tests."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from simcluster.clock import Clock, seconds_of
from simcluster.cluster import Cluster
from simcluster.fleet import NodeSpec, parse_nodes
from simcluster.http import App
from simcluster.kubeconfig import write_kubeconfig
from simcluster.objects import Obj
from simcluster.server import Server, listen
from simcluster.world import Options

TOKEN = "simcluster-test-token"  # noqa: S105 - of a server that lives as long as a test
START = "2026-01-05T08:00:00Z"


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that answers at `url` for as long as its block lasts."""

    url: str
    token: str

    def write_kubeconfig(self, path: Path) -> Path:
        write_kubeconfig(path, url=self.url, token=self.token)
        return path

    def call(self, method: str, path: str, body: object = None) -> Obj:
        """The JSON answer of one request; urllib's HTTPError for a refusal."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - our own address
            self.url + path, data=data, headers=headers, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            return dict(json.load(answer))

    def now(self) -> datetime:
        """The cluster's simulated time."""
        return datetime.fromisoformat(self.call("GET", "/simcluster/clock")["now"])

    def step(self, seconds: float = 1.0) -> None:
        """Let simulated seconds pass at once, with all that is due in them."""
        self.call("POST", "/simcluster/clock/step", {"seconds": seconds})

    def set_clock(self, *, speed: float | None = None, frozen: bool | None = None) -> None:
        wanted = {"speed": speed, "frozen": frozen}
        self.call("PUT", "/simcluster/clock", {k: v for k, v in wanted.items() if v is not None})

    def fault(self, kind: str, **details: object) -> Obj:
        """Cause a fault; see simcluster/faults.py for the kinds and their details."""
        return self.call("POST", "/simcluster/faults", {"kind": kind, **details})


@contextmanager
def running_cluster(
    nodes: str | list[NodeSpec] = "2xH100-SXM:8",
    *,
    speed: float = 1.0,
    frozen: bool = False,
    start: str = START,
    options: Options | None = None,
) -> Iterator[RunningCluster]:
    """A cluster on a free port of loopback; its clock starts at `start`, RFC 3339."""
    cluster = Cluster(Clock(seconds_of(start), speed=speed, frozen=frozen), options=options)
    cluster.found(parse_nodes(nodes) if isinstance(nodes, str) else nodes)
    listener = listen("127.0.0.1", 0)
    server = Server(App(cluster, token=TOKEN))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_up(server, thread)
        port = listener.getsockname()[1]
        yield RunningCluster(f"http://127.0.0.1:{port}", TOKEN)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def _wait_until_up(server: Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + 10
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("simcluster did not start within 10 s")
        time.sleep(0.005)
