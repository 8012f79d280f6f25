"""Elastic gangs: decided by the engine, written down, and carried out in the cluster."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.plan import Grow
from scheduling.models import Job, Member
from scheduling.services.plans import apply_plan
from scheduling.services.policies import policy_in_force
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest
from scheduling.services.scaling import grow
from scheduling.snapshots import take
from tenants.models import Quota
from tests.factories import NodeFactory
from tests.scheduling.world import after, held_gpus, state_of
from topology.models import Node


def elastic(least, most, gpus=2):
    return (GroupRequest(members=least, max_member=most, gpus_per_member=gpus),)


def ranks(job, **what):
    members = job.members.filter(attempt=job.attempt, **what)
    return sorted(members.values_list("rank", flat=True))


def run_all(world, job):
    job.refresh_from_db()
    for rank in ranks(job, phase="expected"):
        world.say(job, "running", rank=rank)


@pytest.fixture
def crowded(world):
    """(an elastic gang of one to four members that has two, another job that holds the rest)."""
    other = world.running(gpus=4)
    job = world.submit(groups=elastic(1, 4))
    rest = world.submit(gpus=8)
    world.plan()
    for own in (job, rest):
        run_all(world, own)
    return job, other


def test_what_comes_free_goes_to_a_running_gang(world, crowded, sent):
    job, other = crowded
    before = ranks(job)
    world.say(other, "succeeded", at=after(100))

    world.plan(at=after(100))

    assert (before, ranks(job)) == ([0, 1], [0, 1, 2, 3])
    assert len(held_gpus()) == len(set(held_gpus())) == 16
    assert job.events.last().reason == "size 4, was 2"


def test_a_gang_is_not_grown_again_while_members_are_on_their_way(world, crowded):
    job, other = crowded
    world.say(other, "succeeded", at=after(100))
    world.plan(at=after(100))
    world.plan(at=after(101))

    assert len(ranks(job)) == 4

    run_all(world, job)
    (running,) = [own for own in take(world.cluster, at=after(120)).running if own.id == job.pk]

    assert [(group.min_member, group.max_member) for group in running.groups] == [(1, 4)]


def test_surplus_members_make_room_before_anybody_is_stopped(world, crowded):
    job, other = crowded
    claimant = world.submit(gpus=2, at=after(50))

    world.plan(at=after(50))

    assert ranks(job, is_leaving=True) == [1]
    assert [state_of(own) for own in (job, other, claimant)] == ["running", "running", "queued"]
    assert job.events.last().reason == f"size 1, was 2: room for {claimant.public_id}"

    world.say(job, "failed", rank=1, at=after(60), ended_at=after(60), exit_code=None)
    world.plan(at=after(60))

    assert [state_of(own) for own in (job, claimant)] == ["running", "starting"]
    assert Job.objects.get(pk=job.pk).stopping_for is None
    assert len(held_gpus()) == len(set(held_gpus())) == 16


def test_members_are_locked_before_their_job_as_their_reports_lock_them(world, crowded):
    world.submit(gpus=2, at=after(50))

    with CaptureQueriesContext(connection) as queries:
        world.plan(at=after(50))

    locks = [query["sql"] for query in queries if "FOR UPDATE" in query["sql"]]
    assert [lock.split(" FROM ")[1].split()[0] for lock in locks] == [
        '"scheduling_member"',
        '"scheduling_job"',
    ]


def test_a_member_that_leaves_has_a_placement_of_its_own_that_ends_with_it(world, crowded):
    job, _ = crowded
    world.submit(gpus=2, at=after(50))
    world.plan(at=after(50))

    world.say(job, "failed", rank=1, at=after(60), ended_at=after(60), exit_code=None)

    rows = job.placements.order_by("pk").values_list("member_count", "released_at")
    assert list(rows) == [(1, None), (1, after(60))]
    bound = set(job.placements.values_list("bound_at", flat=True))
    assert len(bound) == 1  # the time that both held is counted once


def test_a_gang_with_members_on_their_way_out_is_left_alone(world, crowded):
    job, _ = crowded
    world.submit(gpus=2, at=after(50))
    world.plan(at=after(50))
    world.plan(at=after(51))

    (running,) = [own for own in take(world.cluster, at=after(52)).running if own.id == job.pk]

    assert ranks(job, is_leaving=True) == [1]
    assert [member.rank for member in running.stopping_members] == [1]
    assert (running.is_elastic, running.preemptible) == (False, False)


def test_a_gang_that_shrank_succeeds_without_those_that_left(world, crowded):
    job, _ = crowded
    world.submit(gpus=2, at=after(50))
    world.plan(at=after(50))
    world.say(job, "failed", rank=1, at=after(60), ended_at=after(60), exit_code=None)

    world.say(job, "succeeded", rank=0, at=after(70), ended_at=after(70))

    assert state_of(job) == "succeeded"


def test_new_members_that_do_not_get_onto_their_nodes_leave_again(world, crowded):
    job, other = crowded
    world.say(other, "succeeded", at=after(100))
    world.plan(at=after(100))
    world.say(job, "bound", rank=3, at=after(101))
    Job.objects.filter(pk=job.pk).update(release_by=after(0))  # long ago

    reconcile(world.cluster, at=after(200))

    assert (ranks(job, is_leaving=True), ranks(job, is_leaving=False)) == ([2, 3], [0, 1])
    assert state_of(job) == "running"


def test_growth_that_meets_an_ended_member_is_given_up(world, crowded):
    job, other = crowded
    world.say(other, "succeeded", at=after(100))
    snapshot = take(world.cluster, at=after(100))
    world.say(job, "succeeded", rank=1, at=after(100))

    applied = carry_out(world, snapshot)

    assert (applied.scaled, applied.skipped) == (0, 1)
    assert Member.objects.filter(job=job).count() == 2


def carry_out(world, snapshot):
    plan = plan_cycle(snapshot, policy_in_force(world.cluster))
    return apply_plan(plan, snapshot, at=after(100))


def test_a_gang_of_which_a_node_is_gone_is_not_grown_in_its_place(world):
    job = world.running(members=2)
    spare = NodeFactory(cluster=world.cluster, flavor=world.flavor, gpus=8)
    Node.objects.filter(placements__job=job, placements__members__rank=1).update(gone_at=after(20))

    world.plan(at=after(20))

    assert ranks(job) == [0, 1]
    assert not spare.placements.exists()
    assert state_of(job) == "running"


def test_a_gang_of_which_every_node_is_gone_keeps_no_cluster_from_being_planned(world):
    job = world.running(members=2)
    NodeFactory(cluster=world.cluster, flavor=world.flavor, gpus=8)
    Node.objects.filter(placements__job=job).update(gone_at=after(20))
    other = world.submit(gpus=8)
    Quota.objects.update(nominal=100)

    world.plan(at=after(20))

    assert (state_of(job), state_of(other)) == ("running", "starting")


def test_growth_by_a_rank_that_the_gang_has_is_given_up(world):
    job = world.running(gpus=4)
    snapshot = take(world.cluster, at=after(20))
    (own,) = snapshot.running[0].members

    assert not grow(Grow(job.pk, (own,)), snapshot, at=after(20))
