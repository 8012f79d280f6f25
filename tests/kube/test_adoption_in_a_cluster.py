"""A namespace with work in it, taken over and given back on a real control plane."""

from functools import partial

import pytest

from tests.kube.polling import eventually
from tests.kube.tenant import gates_of, manifest
from topology.kube import names
from topology.kube.adoption import namespaces_of, return_namespace, take_namespace
from topology.kube.live import connect
from topology.kube.tenancy import shared_objects
from topology.kube.upkeep import apply_all, path_of

pytestmark = pytest.mark.kube

NODE, TEAM = "h100-adopted", "team-adopted"
HOME = f"/api/v1/namespaces/{TEAM}"
PODS = f"{HOME}/pods"
_soon = partial(eventually, within=60)


@pytest.fixture
def wire(control_plane):
    """To a cluster with the policies, in which a team has a namespace of its own."""
    api, shared = control_plane.api, shared_objects(["admin"])
    wire = connect(str(control_plane.kubeconfig())).wire
    control_plane.add_nodes(NODE)
    api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    _soon(lambda: api.ask("GET", f"{HOME}/serviceaccounts/default")[0] == 200)
    apply_all(wire, shared)
    yield wire
    api.delete(PODS, gracePeriodSeconds="0")
    api.delete(HOME)
    for obj in shared:
        api.delete(path_of(obj))
    control_plane.remove_nodes(NODE)


def is_gated(api, name):
    """Whether a pod that asks for a GPU would be made with the gate."""
    code, pod = api.ask("POST", PODS, manifest(name, gpus=1), dryRun="All")
    return code == 201 and gates_of(pod) == [names.GATE]


def node_of(api, name):
    return api.get(f"{PODS}/{name}")["spec"].get("nodeName")


def test_what_runs_goes_on_what_comes_is_held_and_all_is_as_before_when_given_back(
    wire, control_plane
):
    api = control_plane.api
    api.create(PODS, manifest("before", gpus=1))
    _soon(lambda: node_of(api, "before") == NODE)

    take_namespace(wire, TEAM, tenant="nlp")
    _soon(lambda: is_gated(api, "probe"))
    api.create(PODS, manifest("held", gpus=1))
    api.create(PODS, manifest("plain"))
    _soon(lambda: node_of(api, "plain") == NODE)
    (seen,) = [each for each in namespaces_of(wire) if each.name == TEAM]

    assert (seen.tenant, seen.kept) == ("nlp", False)
    assert [(work.name, work.state, work.gpus) for work in seen.work] == [("held", "held", 1)]
    assert (node_of(api, "before"), node_of(api, "held")) == (NODE, None)

    opened = return_namespace(wire, TEAM, tenant="nlp")
    _soon(lambda: node_of(api, "held") == NODE)
    _soon(lambda: not is_gated(api, "probe"))

    assert (opened, return_namespace(wire, TEAM, tenant="nlp")) == (1, 0)
    assert node_of(api, "before") == NODE
