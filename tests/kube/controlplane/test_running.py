"""What the control plane of the tests is: who may do what there, who can reach it, when it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.polling import eventually

pytestmark = pytest.mark.kube

PODS = "/api/v1/namespaces/default/pods"
STARTER = """
import sys, time
from pathlib import Path
from tests.kube.controlplane.build import Programs
from tests.kube.controlplane.running import running_control_plane

folder, servers, kwok, assets = (Path(word) if word else None for word in sys.argv[1:])
with running_control_plane(folder, Programs(servers, kwok, assets)):
    print("up", flush=True)
    time.sleep(600)
"""


def processes_with(text):
    """Those on this machine that have `text` in their command."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in command:
            found.append(int(file.parent.name))
    return found


def test_who_has_no_rights_may_do_nothing(control_plane):
    stranger = control_plane.api.acting_as("alice", "tenants")

    assert control_plane.api.ask("GET", PODS)[0] == 200
    assert [stranger.ask("GET", PODS)[0], stranger.delete("/api/v1/nodes/a")[0]] == [403, 403]


def test_a_role_gives_just_the_rights_in_it(control_plane):
    api, rbac = control_plane.api, "/apis/rbac.authorization.k8s.io/v1"
    home = f"{rbac}/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    reader = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    bob = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    api.create(f"{home}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {"metadata": {"name": "reader"}, "roleRef": reader, "subjects": [bob]}
    api.create(f"{home}/rolebindings", binding)

    as_bob = api.acting_as("bob")
    eventually(lambda: as_bob.ask("GET", PODS)[0] == 200)

    assert [as_bob.ask("GET", "/api/v1/nodes")[0], as_bob.delete(f"{PODS}/a")[0]] == [403, 403]
    api.delete(f"{home}/rolebindings/reader")
    api.delete(f"{home}/roles/reader")


def test_kubectl_applies_what_is_right_and_refuses_a_field_that_is_not(control_plane):
    right = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}'
    wrong = right.replace('"data"', '"date"')
    apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")

    assert control_plane.kubectl(*apply, text=right) == "configmap/c created (server dry run)\n"
    with pytest.raises(AssertionError, match='unknown field "date"'):
        control_plane.kubectl(*apply, text=wrong)


def test_it_ends_with_the_process_that_started_it(control_plane_programs, tmp_path):
    programs = control_plane_programs
    words = [tmp_path / "plane", programs.servers, programs.kwok, programs.assets]
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, *("" if word is None else str(word) for word in words)],
        env={**os.environ, "PYTHONPATH": "."},
        stdout=subprocess.PIPE,
        text=True,
    )
    said = starter.stdout.readline()
    before = set(processes_with(str(tmp_path / "plane"))) - {starter.pid}

    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()

    assert (said, len(before)) == ("up\n", 5)
    eventually(lambda: not processes_with(str(tmp_path / "plane")))
