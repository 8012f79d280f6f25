"""Gangs through our gateway where the cluster's own scheduler binds them as one."""

from dataclasses import replace

import pytest

from topology.kube import podgroups
from topology.kube.gateway import NotOffered
from topology.kube.stack import stack_of
from topology.kube.values import GroupSize, MemberRelease, PodGroupSpec
from topology.kube.wire import ApiError, Request

ONLY_REAL = pytest.mark.parametrize("provider", ["kubernetes"], indirect=True, scope="module")
ROOM = "h100-sxm-03"


@pytest.fixture
def more_room(cluster_api, control_plane):
    """Makes a third node, which goes after the test, and after the pods on it."""
    yield lambda: control_plane.add_nodes(ROOM)
    cluster_api.kube.empty()
    control_plane.remove_nodes(ROOM)


@pytest.fixture
def gang(cluster_api):
    """A maker of gangs in a group, of members that need a node each."""
    return lambda **changes: cluster_api.spec(gpus_per_member=8, in_pod_group=True, **changes)


def bond(spec, owners, **changes):
    known = {"namespace": spec.namespace, "job": spec.job, "attempt": spec.attempt}
    known |= {"least": spec.least_members, "labels": spec.labels}
    return PodGroupSpec(**(known | {"owners": owners} | changes))


def begin(cluster_api, *specs):
    """As a worker does it: the Jobs, their group, and then the pods; all of these, by spec."""
    gateway = cluster_api.gateway
    owners = {spec.key.name: gateway.ensure_gang(spec) for spec in specs}
    gateway.ensure_pod_group(bond(specs[0], owners))
    for spec in specs:
        gateway.open_gang(spec.key)
    return [member for spec in specs for member in cluster_api.waiting(spec)]


def let_go(cluster_api, members, nodes):
    """Open the gates, each onto a node of its own."""
    releases = [
        MemberRelease(
            namespace=member.namespace,
            pod_name=member.pod_name,
            pod_uid=member.pod_uid,
            node=node,
            attempt=member.attempt,
        )
        for member, node in zip(members, nodes, strict=True)
    ]
    assert cluster_api.gateway.release_all(releases) == ()


def bound(cluster_api, *specs):
    members = [member for spec in specs for member in cluster_api.gateway.members(spec.key)]
    return sorted(member.node for member in members if member.node)


def group_of(cluster_api, spec):
    """The group as it is; None when it is not there."""
    try:
        path = podgroups.path_of(spec.namespace, spec.job)
        return cluster_api.gateway.wire.ask(Request(method="GET", path=path))
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def until_refused(cluster_api, spec):
    """Until the scheduler has come by and found too little room."""

    def said():
        status = group_of(cluster_api, spec).get("status", {})
        return [own["status"] for own in status.get("conditions", [])] == ["False"]

    cluster_api.soon(said)


def is_offered(cluster_api):
    parts = {part.key: part.is_there for part in stack_of(cluster_api.gateway.wire).parts}
    return parts["pod_groups"]


@pytest.mark.parametrize("provider", ["simcluster"], indirect=True, scope="module")
def test_a_cluster_without_groups_says_so(cluster_api):
    spec = cluster_api.spec()
    owners = {spec.key.name: cluster_api.gateway.ensure_gang(spec)}

    with pytest.raises(NotOffered):
        cluster_api.gateway.ensure_pod_group(bond(spec, owners))
    cluster_api.gateway.ease_pod_group(spec.namespace, spec.job)

    assert not is_offered(cluster_api)


@pytest.mark.kube
@ONLY_REAL
def test_a_gang_of_several_jobs_is_bound_at_once_or_not_at_all(cluster_api, gang, more_room):
    groups = (GroupSize("main", 2, 2), GroupSize("extra", 1, 1))
    main = gang(groups=groups)
    extra = replace(main, group="extra", members=1)
    members = begin(cluster_api, main, extra)
    let_go(cluster_api, members, [*cluster_api.nodes, ROOM])
    until_refused(cluster_api, main)
    before = bound(cluster_api, main, extra)

    more_room()

    cluster_api.soon(lambda: bound(cluster_api, main, extra) == [*cluster_api.nodes, ROOM])
    assert (before, is_offered(cluster_api)) == ([], True)


@pytest.mark.kube
@ONLY_REAL
def test_all_may_be_done_twice_and_the_next_attempt_takes_the_group_over(cluster_api, gang):
    first = gang(members=3)
    members = begin(cluster_api, first)
    assert begin(cluster_api, first) == members
    made = group_of(cluster_api, first)
    assert cluster_api.gateway.suspend_gang(first.key)
    cluster_api.await_none(first)

    second = replace(first, attempt=2, members=2)
    cluster_api.ensure_soon(second)
    members = begin(cluster_api, second)
    let_go(cluster_api, members, cluster_api.nodes)

    cluster_api.soon(lambda: bound(cluster_api, second) == list(cluster_api.nodes))
    now = group_of(cluster_api, second)
    assert now["metadata"]["uid"] == made["metadata"]["uid"]
    counts = [own["spec"]["schedulingPolicy"]["gang"]["minCount"] for own in (made, now)]
    assert (counts, now["metadata"]["annotations"]) == ([3, 2], {"muster.dev/attempt": "2"})


@pytest.mark.kube
@ONLY_REAL
def test_a_gang_that_was_made_without_a_group_is_made_anew_with_one(cluster_api, gang):
    first = replace(gang(), in_pod_group=False)
    cluster_api.gateway.ensure_gang(first)

    second = replace(first, in_pod_group=True)
    cluster_api.ensure_soon(second)

    assert podgroups.is_named_by(cluster_api.kube.job(second.key.name))


@pytest.mark.kube
@ONLY_REAL
def test_members_join_one_at_a_time_though_those_before_them_have_ended(cluster_api, gang):
    spec = gang(groups=(GroupSize("main", 2, 4),))
    let_go(cluster_api, begin(cluster_api, spec), cluster_api.nodes)
    cluster_api.soon(lambda: len(bound(cluster_api, spec)) == 2)
    cluster_api.provider.start_members(spec.namespace)
    cluster_api.await_phases(spec, "running", "running")
    cluster_api.gateway.scale_gang(spec.key, 3)
    (third,) = cluster_api.waiting(replace(spec, members=1))
    cluster_api.provider.end_members(spec.namespace)
    cluster_api.await_phases(spec, "succeeded", "succeeded", "gated")

    cluster_api.gateway.ease_pod_group(spec.namespace, spec.job)
    let_go(cluster_api, [third], cluster_api.nodes[:1])

    cluster_api.soon(lambda: len(bound(cluster_api, spec)) == 3)


@pytest.mark.kube
@ONLY_REAL
def test_a_gang_may_shrink_below_what_began_and_its_group_goes_with_the_last_job(cluster_api, gang):
    spec = gang()
    let_go(cluster_api, begin(cluster_api, spec), cluster_api.nodes)
    cluster_api.soon(lambda: len(bound(cluster_api, spec)) == 2)

    cluster_api.gateway.scale_gang(spec.key, 1)
    cluster_api.soon(lambda: bound(cluster_api, spec) == [cluster_api.nodes[0]])
    cluster_api.gateway.delete_gang(spec.key)

    cluster_api.soon(lambda: group_of(cluster_api, spec) is None)
