"""The agent's rounds: what it publishes and when, and what it survives."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from simcluster.testing import running_cluster
from topology.agent.__main__ import AGAIN_SECONDS, Agent
from topology.agent.guard import GaveUpError, Guard
from topology.agent.publish import ApiServer, NotPublishedError
from topology.agent.survey import DRIVER, GPUS, LINKS, survey

ROOT = Path(__file__).parents[3]
STATE = "muster.dev/gpu-driver-state"


class Node:
    """The object that patches are merged into."""

    def __init__(self):
        self.patches = []
        self.refuses = False

    def take(self, patch):
        if self.refuses:
            raise NotPublishedError("503: later")
        self.patches.append(patch)

    @property
    def states(self):
        return [patch["labels"][STATE] for patch in self.patches]


@pytest.fixture
def node():
    return Node()


def agent_for(machine, node, timeout=10.0):
    return Agent(lambda: survey(machine.root), node.take, timeout)


def test_only_changes_are_published(machine, node):
    machine.gpus(2)
    agent = agent_for(machine, node)

    agent.round(0.0)
    agent.round(60.0)
    machine.say("gpu 1 lost 1")
    agent.round(120.0)
    agent.round(180.0)

    counts = [len(json.loads(patch["annotations"][GPUS])) for patch in node.patches]
    assert counts == [2, 1]


def test_everything_is_published_again_after_an_hour(machine, node):
    machine.gpus(1)
    agent = agent_for(machine, node)

    for at in (0.0, AGAIN_SECONDS - 1, AGAIN_SECONDS):
        agent.round(at)

    assert len(node.patches) == 2


def test_what_was_not_taken_is_published_in_the_next_round(machine, node):
    machine.gpus(1)
    node.refuses = True
    agent = agent_for(machine, node)
    agent.round(0.0)
    node.refuses = False

    agent.round(60.0)

    assert node.states == ["ok"]


def test_a_driver_that_hangs_is_given_up_and_said_to(machine, node):
    machine.gpus(2)
    agent = agent_for(machine, node)
    agent.round(0.0)
    machine.say("gpu 1 hang 1")
    hasty = agent_for(machine, node, timeout=0.3)

    began = time.monotonic()
    hasty.round(60.0)
    took = time.monotonic() - began

    assert node.states == ["ok", "hangs"]
    assert GPUS not in node.patches[1]["annotations"]
    assert took < 3


def test_a_driver_that_answers_again_is_said_to(machine, node):
    machine.gpus(1)
    machine.say("gpu 0 hang 1")
    agent = agent_for(machine, node, timeout=0.3)
    agent.round(0.0)
    machine.say("gpu 0 hang 0")

    agent.round(60.0)

    assert node.states == ["hangs", "ok"]


def test_a_driver_may_come_later(machine, node):
    machine.say("init 9")
    agent = agent_for(machine, node)
    agent.round(0.0)
    machine.state.write_text("count 1\n")

    agent.round(60.0)

    assert node.states == ["missing", "ok"]


def test_a_look_that_crashes_its_process_ends_nothing(node):
    agent = Agent(lambda: os.kill(os.getpid(), signal.SIGKILL), node.take, 10.0)

    agent.round(0.0)

    assert node.states == ["failed"]
    assert "without an answer" in node.patches[0]["annotations"][DRIVER]


def test_a_function_that_raises_is_given_up():
    with pytest.raises(GaveUpError, match="without an answer"):
        Guard(10.0).run(lambda: 1 / 0)


def test_an_answer_longer_than_a_pipe_comes_whole():
    assert Guard(10.0).run(lambda: "x" * 1_000_000) == "x" * 1_000_000


def test_a_machine_without_processes_left_ends_nothing(node, monkeypatch):
    def refuse():
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))

    Agent(dict, node.take, 10.0).round(0.0)

    assert node.states == ["failed"]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_no_call_is_made_while_an_earlier_one_cannot_even_die():
    """A child in uninterruptible sleep cannot be had here: one that was never killed stands in."""
    guard = Guard(0.2)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    guard._stuck = child  # noqa: SLF001 -- as _kill leaves it

    try:
        with pytest.raises(GaveUpError, match="still hangs"):
            guard.run(lambda: "asked")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert guard.run(lambda: "asked") == "asked"


def test_a_round_costs_little(machine, node):
    """One percent of a core is six tenths of a second in each minute."""
    machine.gpus(8)
    agent = agent_for(machine, node)
    before = used()

    for number in range(5):
        agent.round(number * 60.0)

    assert (used() - before) / 5 < 0.6, "a round a minute took more than one percent of a core"


def used():
    """CPU seconds of this process and of its children that have ended."""
    return sum(
        resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


class Handler(BaseHTTPRequestHandler):
    def do_PATCH(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b'{"message": "so be it"}')

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def api_server():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_patch_merges_into_the_nodes_metadata(api_server):
    host, port = api_server.server_address
    patch = {"labels": {STATE: "ok"}, "annotations": {GPUS: None}}

    ApiServer(host, port, None, None).patch_node("gpu/7", patch)

    assert api_server.seen == [
        ("/api/v1/nodes/gpu%2F7", "application/merge-patch+json", {"metadata": patch})
    ]


def test_the_whole_agent_reports_and_stays_small(api_server, nvml_folder, machine):
    machine.gpus(8, "NVIDIA H100 80GB HBM3", 81_559)
    host, port = api_server.server_address
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(nvml_folder),
        "NVML_STUB_STATE": str(machine.state),
        "NODE_NAME": "gpu-7",
    }
    options = ["--root", machine.root, "--interval", "0.01", "--api", f"{host}:{port}"]
    agent = subprocess.Popen(
        [sys.executable, "-m", "topology.agent", *options], env=environment, cwd=ROOT
    )
    try:
        wait_for(lambda: len(api_server.seen) == 1)
        machine.say("gpu 1 lost 1")
        wait_for(lambda: len(api_server.seen) > 1)
        most_mib = high_water_mib(agent.pid)
    finally:
        agent.kill()
        agent.wait()

    states = [patch["metadata"]["annotations"][DRIVER] for _, _, patch in api_server.seen]
    assert ["lost" in state for state in states] == [False, True]
    assert most_mib < 40


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def high_water_mib(pid):
    """The most memory that a process ever had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def test_a_refusal_is_told_with_its_reason(api_server):
    api_server.status = 403
    host, port = api_server.server_address

    with pytest.raises(NotPublishedError, match=r"403: .*so be it"):
        ApiServer(host, port, None, None).patch_node("gpu-7", {})


def test_a_server_that_is_not_there_is_no_crash(tmp_path):
    with pytest.raises(NotPublishedError):
        ApiServer("127.0.0.1", 1, None, None).patch_node("gpu-7", {})
    with pytest.raises(NotPublishedError):
        ApiServer("127.0.0.1", 1, tmp_path / "no", tmp_path / "none").patch_node("gpu-7", {})


def test_a_cluster_takes_what_is_said_and_lets_go_of_what_is_not(tmp_path):
    """Simcluster answers as a real API server does: the same contract is tried on both."""
    token = tmp_path / "token"
    with running_cluster("1xH100-SXM:8", frozen=True) as cluster:
        token.write_text(f"{cluster.token}\n")
        address = urlsplit(cluster.url)
        server = ApiServer(address.hostname, address.port, token, certificates=None)
        (name,) = metadata_of(cluster)

        server.patch_node(name, {"labels": {STATE: "ok"}, "annotations": {LINKS: "{}"}})
        first = metadata_of(cluster)[name]
        server.patch_node(name, {"labels": {STATE: "tegra"}, "annotations": {LINKS: None}})
        second = metadata_of(cluster)[name]
        with pytest.raises(NotPublishedError, match="404"):
            server.patch_node("another", {})

    assert (first["labels"][STATE], first["annotations"][LINKS]) == ("ok", "{}")
    assert second["labels"] == first["labels"] | {STATE: "tegra"}
    assert second["annotations"].keys() == first["annotations"].keys() - {LINKS}


def metadata_of(cluster):
    """The metadata of each node of a cluster, by its name."""
    request = urllib.request.Request(
        f"{cluster.url}/api/v1/nodes", headers={"Authorization": f"Bearer {cluster.token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        nodes = [node["metadata"] for node in json.load(answer)["items"]]
    return {node["name"]: node for node in nodes}
