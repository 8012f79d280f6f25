"""`python -m simcluster` as a process: its errors, its state file, its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager

import pytest

from simcluster.cli import main

PODS = "/api/v1/namespaces/default/pods"
TOKEN = "a-token"


@pytest.fixture
def port():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


@contextmanager
def simcluster(port, *arguments):
    """The program, up and answering; killed at the end of the block if it is still there."""
    command = [sys.executable, "-m", "simcluster", "--nodes", "2xL40S:8", "--port", str(port)]
    command += ["--token", TOKEN, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == (
                f"simcluster: Kubernetes API at http://127.0.0.1:{port}\n"
            )
            wait_until(lambda: ask(port, "GET", "/readyz") == "ok")
            yield process
        finally:
            process.kill()


def ask(port, method, path, body=None):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with closing(urllib.request.urlopen(request, timeout=10)) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def wait_until(holds, seconds=20):
    """Poll until `holds` is true; a server that is not there yet counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_state_and_clock_survive_a_kill(port, pod, tmp_path):
    state = ("--state", str(tmp_path / "state.db"), "--start-time", "2026-01-05T08:00:00Z")
    with simcluster(port, *state, "--frozen") as process:
        ask(port, "POST", PODS, pod("kept", gpus=2))
        ask(port, "POST", PODS, pod("gone", gated=True))
        ask(port, "POST", "/simcluster/clock/step", {"seconds": 10})
        ask(port, "DELETE", f"{PODS}/gone")
        time.sleep(1.0)  # what is promised: a second later it is in the file
        process.send_signal(signal.SIGKILL)

    with simcluster(port, *state):
        clock = ask(port, "GET", "/simcluster/clock")
        (kept,) = ask(port, "GET", PODS)["items"]
        ask(port, "POST", "/simcluster/clock/step", {"seconds": 30})
        (ended,) = ask(port, "GET", PODS)["items"]

    state_of = ended["status"]["containerStatuses"][0]["state"]
    assert (clock["now"], clock["frozen"]) == ("2026-01-05T08:00:10.000000Z", True)
    assert kept["status"]["phase"] == "Running"
    assert kept["metadata"]["annotations"]["simcluster.muster.dev/devices"] == "0,1"
    assert state_of["terminated"]["finishedAt"] == "2026-01-05T08:00:32Z"


def test_a_version_from_before_a_restart_is_too_old(port, pod, tmp_path):
    state = ("--state", str(tmp_path / "state.db"))
    with simcluster(port, *state) as process:
        before = ask(port, "GET", PODS)["metadata"]["resourceVersion"]
        process.terminate()
        process.wait(10)

    with simcluster(port, *state):
        path = f"{PODS}?watch=true&timeoutSeconds=1&resourceVersion={before}"
        event = ask(port, "GET", path)

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_at_once_even_with_a_watch_open(port, number):
    with simcluster(port) as process:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{port}{PODS}?watch=true"
        request = urllib.request.Request(url, headers=headers)
        with closing(urllib.request.urlopen(request, timeout=10)):
            started = time.monotonic()
            os.kill(process.pid, number)
            status = process.wait(10)

    assert status == 0
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "six"], "--nodes: 'six' is not COUNTxMODEL:GPUS"),
        (["--nodes", ""], "say which nodes"),
        (["--fleet", "/none.json"], "--fleet: /none.json cannot be read"),
        (["--nodes", "1xL4:1", "--speed", "0"], "--speed must be above 0"),
        (["--nodes", "1xL4:1", "--start-time", "noon"], "--start-time: 'noon' is no RFC 3339"),
        (["--nodes", "1xL4:1", "--state", "/none/x"], "--state: /none/x cannot be used"),
        (["--nodes", "1xL4:1", "--kubeconfig", "/none/x"], "--kubeconfig: /none/x cannot be"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line_and_status_2(capsys, arguments, words):
    status = main(arguments)

    told = capsys.readouterr().err
    assert (status, told.count("\n")) == (2, 1)
    assert words in told


def test_a_taken_port_is_named_with_the_way_out(capsys):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

        status = main(["--nodes", "1xL4:1", "--port", str(port)])

    told = capsys.readouterr().err
    assert status == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in told
    assert "choose another with --port" in told


def test_a_state_file_belongs_to_one_cluster_at_a_time(port, capsys, tmp_path):
    state = str(tmp_path / "state.db")
    with simcluster(port, "--state", state):
        status = main(["--nodes", "1xL4:1", "--state", state])

    assert (status, "database is locked" in capsys.readouterr().err) == (2, True)
