"""A watcher that begins anew lists what rows know already, and asks nothing about it."""

import pytest

from scheduling.models import Member
from tests.scheduling.world import state_of
from topology.kube.values import ListBegun, Listed


@pytest.fixture
def job(world):
    """A job of two members that run."""
    return world.running(members=2)


@pytest.fixture
def listed_again(world, job):
    """Its members as a list tells them, which has begun."""
    members = [
        world.member(job, "running", rank=member.rank, version=member.seen_version)
        for member in job.members.order_by("rank")
    ]
    world.tell(ListBegun(kind="members", version=world.version))
    return members


def test_what_is_as_it_is_known_costs_no_query(world, listed_again, django_assert_num_queries):
    with django_assert_num_queries(0):
        for seen in listed_again:
            world.tell(seen)


def test_what_has_changed_is_taken_in(world, job, listed_again):
    world.tell(listed_again[0])
    world.say(job, "succeeded", rank=1)

    assert [m.phase for m in job.members.order_by("rank")] == ["running", "succeeded"]


def test_what_is_not_listed_is_gone_all_the_same(world, job, listed_again):
    world.tell(listed_again[0])
    world.tell(
        Listed(kind="members", keys=frozenset({listed_again[0].pod_uid}), version=world.version)
    )

    assert [m.phase for m in job.members.order_by("rank")] == ["running", "gone"]


def test_after_the_list_rows_are_asked_again(world, listed_again, django_assert_num_queries):
    uids = frozenset(seen.pod_uid for seen in listed_again)
    world.tell(Listed(kind="members", keys=uids, version=world.version))

    with django_assert_num_queries(3):  # the member, inside a savepoint
        world.tell(listed_again[0])


def test_a_cluster_that_was_restored_is_believed_from_the_first_report(world, job):
    early = [world.member(job, "succeeded", rank=rank, version=rank + 1) for rank in range(2)]
    Member.objects.update(seen_version=1000)
    world.tell(ListBegun(kind="members", version=5))

    for seen in early:
        world.tell(seen)

    assert state_of(job) == "succeeded"


def test_a_pod_that_was_taken_for_a_stray_is_looked_at(world, job):
    member = job.members.order_by("rank").first()
    use = {"gpus": 1, "cpu_milli": 0, "memory_mib": 0, "version": member.seen_version}
    node = member.placement.node
    type(node).objects.filter(pk=node.pk).update(strays={member.pod_uid: use})
    world.tell(ListBegun(kind="members", version=world.version))

    seen = world.member(job, "running", rank=0, version=member.seen_version, node=node.name)
    world.tell(seen)

    node.refresh_from_db()
    assert node.strays == {}
