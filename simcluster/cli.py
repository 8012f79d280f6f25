"""The command line: `python -m simcluster --nodes 6xH100-SXM:8 --speed 60 --port 6443`."""

import argparse
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import time
from pathlib import Path

from simcluster.clock import MAX_SPEED, Clock, seconds_of
from simcluster.cluster import Cluster
from simcluster.errors import UsageError
from simcluster.fleet import NodeSpec, parse_nodes, read_fleet
from simcluster.http import App
from simcluster.kubeconfig import write_kubeconfig
from simcluster.persistence import StateFile
from simcluster.server import Server, listen
from simcluster.world import Options

HOST = "127.0.0.1"
_USAGE_STATUS = 2
# Objects hold no cycles; with thousands of them the default would look through them all too often.
_GC_THRESHOLDS = (50_000, 20, 50)


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 after an orderly end, 2 for a wrong command line."""
    try:
        return _run(_parser().parse_args(arguments))
    except UsageError as error:
        sys.stderr.write(f"simcluster: {error}\n")
        return _USAGE_STATUS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simcluster", description="A small simulated Kubernetes.")
    add = parser.add_argument
    add("--nodes", help="COUNTxMODEL:GPUS, comma separated: 6xH100-SXM:8,2xL40S:8")
    add("--fleet", type=Path, help="JSON file with one object for each node, instead of --nodes")
    add("--tainted", action="store_true", help="taint GPU nodes with muster.dev/pool=gpu")
    add("--port", type=int, default=0, help="port of 127.0.0.1 (default: a free one)")
    add("--token", default=os.environ.get("SIMCLUSTER_TOKEN"), help="bearer token")
    add("--kubeconfig", type=Path, help="write a kubeconfig for kubectl to this file")
    add("--speed", type=float, help="simulated seconds per second, at most 1000 (default: 1)")
    add("--frozen", action="store_true", help="start with the clock standing still")
    add("--start-time", help="simulated time at the start, RFC 3339 (default: now)")
    add("--start-seconds", type=float, default=2.0, help="from bound to running (default: 2)")
    add("--run-seconds", type=int, default=60, help="run of pods that do not say (default: 60)")
    add("--plugin-chooses", action="store_true", help="device plugins heed no wishes of pods")
    add("--state", type=Path, help="keep the state in this file and go on from it")
    return parser


def _run(given: argparse.Namespace) -> int:
    gc.set_threshold(*_GC_THRESHOLDS)
    logging.basicConfig(level=logging.INFO, format="simcluster: %(message)s")
    specs, clock = _specs(given), _clock(given)
    with _listen(given.port) as listener:
        state = StateFile(given.state) if given.state else None
        cluster = _cluster(given, clock, state=state)
        cluster.found(specs)
        token = given.token or secrets.token_urlsafe(24)
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        if given.kubeconfig:
            _write_kubeconfig(given.kubeconfig, url=url, token=token)
        _announce(given, url, token=token)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # uvicorn stops, and then raises it again
        Server(App(cluster, token=token, state=state)).run(sockets=[listener])
    return 0


def _write_kubeconfig(path: Path, *, url: str, token: str) -> None:
    try:
        write_kubeconfig(path, url=url, token=token)
    except OSError as error:
        text = f"--kubeconfig: {path} cannot be written: {error.strerror}"
        raise UsageError(text) from error


def _announce(given: argparse.Namespace, url: str, *, token: str) -> None:
    sys.stdout.write(f"simcluster: Kubernetes API at {url}\n")
    if not given.token and not given.kubeconfig:
        sys.stdout.write(f"simcluster: token {token}\n")
    sys.stdout.flush()


def _cluster(given: argparse.Namespace, clock: Clock, *, state: StateFile | None) -> Cluster:
    """A new cluster, or the one of the state file, whose clock goes on from where it was."""
    options = Options(
        start_seconds=given.start_seconds,
        run_seconds=given.run_seconds,
        tainted=given.tainted,
        chooses=given.plugin_chooses,
    )
    if state is None:
        return Cluster(clock, options=options)
    saved = state.clock()
    if saved is not None:
        saved.set_rate(speed=given.speed, frozen=given.frozen or None)
    cluster = Cluster(saved or clock, options=options)
    if state.restore(cluster.world):
        cluster.resume()
    return cluster


def _specs(given: argparse.Namespace) -> list[NodeSpec]:
    if given.fleet:
        return read_fleet(given.fleet)
    if not given.nodes:
        raise UsageError("say which nodes: --nodes 6xH100-SXM:8,2xL40S:8 or --fleet FILE.json")
    return parse_nodes(given.nodes)


def _clock(given: argparse.Namespace) -> Clock:
    speed = 1.0 if given.speed is None else given.speed
    if not 0 < speed <= MAX_SPEED:
        raise UsageError(f"--speed must be above 0 and at most {MAX_SPEED:g}")
    try:
        start = seconds_of(given.start_time) if given.start_time else time.time()
    except ValueError as error:
        text = f"--start-time: {given.start_time!r} is no RFC 3339 time like 2026-01-05T08:00:00Z"
        raise UsageError(text) from error
    return Clock(start, speed=speed, frozen=given.frozen)


def _listen(port: int) -> socket.socket:
    try:
        return listen(HOST, port)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"port {port} of {HOST} cannot be used ({error}); choose another with --port, or 0 "
            "for a free one"
        ) from error
