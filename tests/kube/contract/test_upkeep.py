"""What a tenant has in a cluster: made, found changed, put right; and policies, which are kept."""

import pytest

from topology.kube.tenancy import shared_objects
from topology.kube.upkeep import path_of
from topology.kube.values import Drift, TenancySpec
from topology.kube.wire import Request

WALL = "requests.nvidia.com/gpu"


@pytest.fixture
def tenancy(cluster_api, kube):
    """A tenant's objects in the test's namespace; without the label that policies go by."""
    spec = TenancySpec(tenant="nlp", namespace=cluster_api.namespace, gpus=8)
    cluster_api.gateway.keep_tenancy(spec)
    return spec


def patch(kube, path, body):
    assert kube.patch(f"{kube.home}{path}", body, kind="merge")[0] == 200


def test_what_was_made_has_not_drifted(cluster_api, tenancy):
    assert cluster_api.gateway.tenancy_drift(tenancy) == ()
    assert cluster_api.gateway.has_tenancy(tenancy.namespace)


def test_keeping_it_again_writes_nothing(cluster_api, kube, tenancy):
    path = f"{kube.home}/limitranges/muster"  # which nobody else writes to
    before = kube.get(path)

    cluster_api.gateway.keep_tenancy(tenancy)

    assert kube.get(path)["metadata"] == before["metadata"]


def test_what_was_changed_and_what_is_gone_is_found_and_put_right(cluster_api, kube, tenancy):
    patch(kube, "/resourcequotas/muster", {"spec": {"hard": {WALL: "9", "pods": "7"}}})
    patch(kube, "", {"metadata": {"labels": {"muster.dev/tenant": None, "theirs": "a"}}})
    kube.delete(f"{kube.home}/limitranges/muster")

    drift = cluster_api.gateway.tenancy_drift(tenancy)
    cluster_api.gateway.keep_tenancy(tenancy)

    assert drift == (
        Drift(
            kind="Namespace", name=tenancy.namespace, fields=("metadata.labels.muster.dev/tenant",)
        ),
        Drift(kind="ResourceQuota", name="muster", fields=(f"spec.hard.{WALL}",)),
        Drift(kind="LimitRange", name="muster"),
    )
    assert cluster_api.gateway.tenancy_drift(tenancy) == ()
    assert kube.get(f"{kube.home}/resourcequotas/muster")["spec"]["hard"] == {
        WALL: "8",
        "pods": "7",
    }
    assert kube.get(kube.home)["metadata"]["labels"]["theirs"] == "a"


def test_a_namespace_that_somebody_else_made_is_not_ours_yet(cluster_api, kube):
    assert not cluster_api.gateway.has_tenancy(cluster_api.namespace)
    assert not cluster_api.gateway.has_tenancy("nowhere")


def test_policies_are_kept_and_missed(cluster_api):
    before = cluster_api.gateway.missing_policies()
    shared = shared_objects(["muster"])
    cluster_api.gateway.apply(shared)
    after = cluster_api.gateway.missing_policies()
    drift = cluster_api.gateway.drift(shared)
    for obj in shared:
        cluster_api.gateway.wire.ask(Request(method="DELETE", path=path_of(obj)))

    assert ("muster-gate" in before, len(before), after, drift) == (True, 12, (), ())
