"""Gangs of Kubernetes' own, behind the feature gate GenericWorkload: a wall beside the gate."""

import pytest

# simcluster has none, and does not pretend to.
pytestmark = [
    pytest.mark.kube,
    pytest.mark.parametrize("provider", ["kubernetes"], indirect=True, scope="module"),
]

GATE = "muster.dev/gate"
ROOM = "h100-sxm-03"
MEMBERS = ("a", "b", "c")


@pytest.fixture
def gang(kube, pod):
    """Three gated members of eight GPUs each, of which none is to be bound before all can be."""
    groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{kube.namespace}/podgroups"
    policy = {"gang": {"minCount": len(MEMBERS)}}
    kube.create(groups, {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": policy}})
    for name in MEMBERS:
        of_gang = {"schedulingGroup": {"podGroupName": "gang"}}
        kube.create(kube.pods, pod(name, gpus=8, gated=True, **of_gang))
    return lambda: kube.get(f"{groups}/gang").get("status", {}).get("conditions", [])


@pytest.fixture
def more_room(kube, control_plane):
    """Makes a third node, which goes after the test, and after the pods on it."""
    yield lambda: control_plane.add_nodes(ROOM)
    kube.empty()
    control_plane.remove_nodes(ROOM)


def open_gates(kube, *names):
    for name in names:
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        assert kube.patch(f"{kube.pods}/{name}", patch)[0] == 200


def bound(kube):
    return [name for name in MEMBERS if kube.pod(name)["spec"].get("nodeName")]


def test_a_gang_without_room_for_all_has_none_bound_until_there_is(kube, gang, more_room):
    open_gates(kube, *MEMBERS)
    [condition] = kube.until(gang)
    before = bound(kube)

    more_room()

    assert (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "False")
    assert before == []
    kube.until(lambda: bound(kube) == list(MEMBERS))


def test_a_gang_with_a_gate_shut_has_none_bound_though_there_is_room(kube, gang, more_room):
    more_room()

    open_gates(kube, "a", "b")
    kube.create(kube.pods, stranger())
    kube.until_bound("stranger")  # the scheduler has come by
    before = bound(kube)
    open_gates(kube, "c")

    assert before == []
    kube.until(lambda: bound(kube) == list(MEMBERS))


def stranger():
    container = {"name": "main", "image": "busybox:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger"},
        "spec": {"containers": [container]},
    }
