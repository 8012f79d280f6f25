"""Exact GPUs by claims (DRA): what the cluster makes of ours, and says of what it gave."""

from dataclasses import replace

import pytest

from topology.kube import claims
from topology.kube.values import ClaimablesSeen, MemberClaim
from topology.kube.wire import ApiError, Request

DRIVER = "gpu.nvidia.com"
CLASS = {
    "apiVersion": claims.API,
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


def slice_of(node):
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{node}-{index}"}},
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for index in range(8)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    head = {"apiVersion": claims.API, "kind": "ResourceSlice"}
    return {**head, "metadata": {"name": f"{node}-gpu"}, "spec": spec}


@pytest.fixture
def node(provider):
    """A node whose GPUs can be claimed."""
    name, api = provider.nodes[0], provider.api
    classes, slices = f"/apis/{claims.API}/deviceclasses", claims.SLICES_PATH
    api.create(classes, CLASS)
    api.create(slices, slice_of(name))
    yield name
    api.delete(f"{classes}/{DRIVER}")
    api.delete(f"{slices}/{name}-gpu")


def release_onto(cluster_api, member, node, gpus):
    (release,) = cluster_api.onto([member], node)
    uuids = tuple(f"GPU-{node}-{index}" for index in gpus)
    claim = MemberClaim(job=member.job, group=member.group, rank=member.rank, uuids=uuids)
    return replace(release, claim=claim)


def given(cluster_api, spec):
    """What each member of the gang was given, by rank, once that is known of `spec.members`."""

    def told():
        path = claims.path_of(spec.namespace, "resourceclaims")
        listed = cluster_api.gateway.wire.ask(Request(method="GET", path=path))["items"]
        seen = [own for own in map(claims.claimed_seen, listed) if own is not None]
        return {own.rank: own.devices for own in seen} if len(seen) == spec.members else {}

    return cluster_api.soon(told)


def claims_of(cluster_api, spec):
    path = claims.path_of(spec.namespace, "resourceclaims")
    return cluster_api.gateway.wire.ask(Request(method="GET", path=path))["items"]


def test_each_member_gets_the_gpus_that_were_chosen_for_it(cluster_api, node):
    spec = cluster_api.spec(gpus_per_member=2, by_claim=True)
    chosen = [(6, 7), (1, 4)]
    members = cluster_api.held(spec)

    releases = [
        release_onto(cluster_api, member, node, gpus)
        for member, gpus in zip(members, chosen, strict=True)
    ]
    assert cluster_api.gateway.release_all(releases) == ()
    assert cluster_api.gateway.release_all(releases) == ()  # may be done twice

    wanted = {rank: tuple((node, f"gpu-{gpu}") for gpu in gpus) for rank, gpus in enumerate(chosen)}
    assert given(cluster_api, spec) == wanted
    assert {member.node for member in cluster_api.gateway.members(spec.key)} <= {"", node}


def test_nothing_is_left_of_a_gang_that_is_deleted(cluster_api, node):
    spec = cluster_api.spec(members=1, gpus_per_member=2, by_claim=True)
    (member,) = cluster_api.held(spec)
    cluster_api.gateway.release(release_onto(cluster_api, member, node, (0, 1)))
    given(cluster_api, spec)

    cluster_api.gateway.delete_gang(spec.key)

    cluster_api.provider.until(lambda: not cluster_api.gateway.members(spec.key))
    cluster_api.provider.until(lambda: not claims_of(cluster_api, spec))
    template = claims.path_of(spec.namespace, "resourceclaimtemplates") + f"/{spec.key.name}"

    def is_gone():
        try:
            cluster_api.gateway.wire.ask(Request(method="GET", path=template))
        except ApiError as error:
            return error.status == 404
        return False

    cluster_api.provider.until(is_gone)


def test_a_gang_of_the_next_attempt_may_ask_in_another_way(cluster_api, node):
    spec = cluster_api.spec(members=1, gpus_per_member=2)
    cluster_api.held(spec)
    assert cluster_api.gateway.suspend_gang(spec.key)
    cluster_api.await_none(spec)

    by_claim = replace(spec, attempt=2, by_claim=True)
    cluster_api.ensure_soon(by_claim)
    cluster_api.gateway.open_gang(by_claim.key)
    (member,) = cluster_api.waiting(by_claim)

    assert "claims" in cluster_api.pod(member.pod_name)["spec"]["containers"][0]["resources"]


def test_lists_of_what_can_be_claimed_are_told(cluster_api, node):
    with cluster_api.watching() as heard:
        told = cluster_api.soon(lambda: [own for own in heard if isinstance(own, ClaimablesSeen)])

    (seen,) = {(own.name, own.node) for own in told}
    assert seen == (f"{node}-gpu", node)
    first = told[0].gpus[0]
    assert (first.device, first.uuid, first.memory_mib) == ("gpu-0", f"GPU-{node}-0", 81559)
