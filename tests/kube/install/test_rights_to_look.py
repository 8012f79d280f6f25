"""The accounts of an installation that only looks: they see all, and change nothing."""

import pytest

from tests.kube.install.installed import installed
from tests.kube.install.rights import Installation, Noting, granted, how
from topology.kube.admission.policies import POLICY_NAMES
from topology.kube.adoption import namespaces_of
from topology.kube.live import LiveGateway
from topology.kube.rights import TO_MANAGE
from topology.kube.wire import ReadingWire
from topology.services.check import findings

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def read_only(control_plane, kustomize):
    found = kustomize("read-only")
    with installed(control_plane, found):
        yield Installation(control_plane, found)


def test_looking_needs_every_right_of_the_read_only_accounts_and_no_other(read_only):
    wire = Noting(read_only.worker.kubeconfig)
    gateway = LiveGateway(ReadingWire(wire))

    found = findings(gateway.wire)

    assert (found["lacks_to_look"], found["closed"]) == ([], [])
    assert len(found["lacks_to_manage"]) == len(TO_MANAGE)
    assert gateway.missing_policies() == POLICY_NAMES
    assert not gateway.has_tenancy("muster-rights")
    assert "default" in [space.name for space in namespaces_of(gateway.wire)]
    needed = wire.needed | granted(read_only.found, "muster-watcher")
    assert needed == granted(read_only.found, "muster-worker")
    assert needed | {("get", "/pods/log")} == granted(read_only.found, "muster-web")


JOBS = "/apis/batch/v1/namespaces/default/jobs"
# What the full set may and the read-only set may not.
WRITES = {
    "makes a Job": ("POST", JOBS, {"metadata": {"name": "a"}}),
    "opens a Job": ("PATCH", f"{JOBS}/a", {"spec": {"suspend": False}}),
    "removes a Job": ("DELETE", f"{JOBS}/a", None),
    "deletes a pod": ("DELETE", "/api/v1/namespaces/default/pods/a", None),
    "opens a gate": ("PATCH", "/api/v1/namespaces/default/pods/a", {"spec": {}}),
    "evicts a pod": ("POST", "/api/v1/namespaces/default/pods/a/eviction", {}),
    "taints a node": ("PATCH", "/api/v1/nodes/a", {"spec": {"taints": None}}),
    "makes a namespace": ("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}}),
    "labels a namespace": ("PATCH", "/api/v1/namespaces/default", {"metadata": {}}),
    "makes a quota": ("POST", "/api/v1/namespaces/default/resourcequotas", {}),
    "changes a network policy": (
        "PATCH",
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/a",
        {},
    ),
    "makes a class": ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {}),
}


@pytest.mark.parametrize(("method", "path", "body"), WRITES.values(), ids=WRITES)
def test_who_only_looks_changes_nothing(read_only, method, path, body):
    asked = (method, path, body)

    assert read_only.worker.api.ask(*asked, **how(method))[0] == 403
    assert read_only.watcher.api.ask(*asked, **how(method))[0] == 403
