"""Looking ahead between cycles: the queue's order, estimates of starts, and whether they held."""

from datetime import timedelta

import pytest
from django.core.cache import cache

from scheduling.models import Job, QueueOrder, StartEstimate, Unknown
from scheduling.services.outlook import look_ahead, settle
from scheduling.states import JobState
from scheduling.tasks import look_ahead as look_ahead_task
from scheduling.tasks import run_cycle
from tests.factories import JobFactory, PlacementFactory, StartEstimateFactory
from tests.scheduling.world import T0, after
from topology.services.cycle_request import ask_for_cycle

HOUR = 3600


@pytest.fixture(autouse=True)
def _rested():
    cache.clear()


@pytest.fixture
def past(world):
    """Twenty jobs that ended, each after half of its hour."""
    for _ in range(20):
        JobFactory(
            cluster=world.cluster,
            tenant=world.tenant,
            state=JobState.SUCCEEDED,
            walltime_seconds=HOUR,
            started_at=T0 - timedelta(hours=2),
            ended_at=T0 - timedelta(hours=1, minutes=30),
        )


def told(job):
    row = StartEstimate.objects.get(job=job, attempt=job.attempt)
    return row.earliest, row.latest, row.unknown


def test_a_cycle_keeps_the_order_in_which_it_decided(world):
    world.submit(members=2, at=T0)
    late = world.submit(members=2, at=after(1))
    later = world.submit(members=2, at=after(2))

    world.plan(at=after(3))

    kept = QueueOrder.objects.get(cluster=world.cluster)
    assert (kept.jobs, kept.at) == ([late.pk, later.pk], after(3))


def test_a_start_is_expected_when_room_comes_by_what_jobs_used_before(world, past):
    world.running(members=2, walltime_seconds=HOUR)
    job = world.submit(members=1, walltime_seconds=HOUR)
    world.plan()

    assert look_ahead(world.cluster, at=T0) == 1

    assert told(job) == (after(1800), after(1860), "")  # it runs since T0 + 10 s
    row = job.estimates.get()
    assert (row.percent, row.made_at) == (80, T0)
    assert (row.first_at, row.first_earliest, row.first_latest) == (T0, after(1800), after(1860))


def test_the_odds_are_those_of_the_record_once_there_is_one(world, past):
    world.running(members=2, walltime_seconds=HOUR)
    job = world.submit(walltime_seconds=HOUR)
    world.plan()
    for number in range(20):
        ended = JobFactory(cluster=world.cluster, state=JobState.SUCCEEDED)
        StartEstimateFactory(job=ended, held=number < 13, settled_at=T0)

    look_ahead(world.cluster, at=T0)

    assert job.estimates.get().percent == 65


def test_nothing_is_expected_before_anything_has_ended(world):
    world.running(members=2, walltime_seconds=HOUR)
    job = world.submit(walltime_seconds=HOUR)
    world.plan()

    look_ahead(world.cluster, at=T0)

    assert told(job) == (None, None, Unknown.NO_PAST)


def test_nobody_knows_when_a_job_makes_room_that_outlasts_all_others(world, past):
    running = world.running(members=2)
    Job.objects.filter(pk=running.pk).update(started_at=T0 - timedelta(hours=1))
    job = world.submit(walltime_seconds=HOUR)
    world.plan()

    look_ahead(world.cluster, at=T0)

    assert told(job) == (None, None, Unknown.NO_END)


def test_what_is_kept_back_has_no_estimate_and_its_first_one_does_not_count(world, past):
    world.running(members=2, walltime_seconds=HOUR)
    job = world.submit(walltime_seconds=HOUR)
    world.plan()
    look_ahead(world.cluster, at=T0)
    Job.objects.filter(pk=job.pk).update(is_held=True)
    world.plan(at=after(60))
    cache.clear()

    look_ahead(world.cluster, at=after(60))

    assert told(job) == (None, None, Unknown.KEPT_BACK)
    assert job.estimates.get().first_at is None


def test_the_first_estimate_of_a_wait_stays_and_the_newest_is_shown(world, past):
    running = world.running(members=2, walltime_seconds=HOUR)
    job = world.submit(walltime_seconds=HOUR)
    world.plan()
    look_ahead(world.cluster, at=T0)
    cache.clear()
    Job.objects.filter(pk=running.pk).update(started_at=after(600))

    look_ahead(world.cluster, at=after(600))

    row = job.estimates.get()
    assert (row.first_earliest, row.earliest) == (after(1800), after(2400))


def test_a_look_that_cost_time_is_followed_by_a_rest(world, past):
    world.running(members=2, walltime_seconds=HOUR)
    world.submit(walltime_seconds=HOUR)
    world.plan()

    assert [look_ahead(world.cluster, at=T0) for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("start", "held"), [(1799, False), (1800, True), (2400, True), (2401, False)]
)
def test_a_start_settles_its_first_estimate(world, start, held):
    job = JobFactory(cluster=world.cluster, attempt=1, state=JobState.RUNNING)
    PlacementFactory(job=job, node=world.cluster.nodes.first(), attempt=1, bound_at=after(start))
    row = StartEstimateFactory(
        job=job, first_at=T0, first_earliest=after(1800), first_latest=after(2400)
    )

    assert settle(world.cluster, at=after(9000)) == 1

    row.refresh_from_db()
    assert (row.held, row.settled_at) == (held, after(start))
    assert settle(world.cluster, at=after(9000)) == 0


def test_who_waits_beyond_the_range_has_missed_it_and_later_starts_change_nothing(world):
    job = JobFactory(cluster=world.cluster)
    row = StartEstimateFactory(job=job, first_at=T0, first_earliest=T0, first_latest=after(60))

    assert settle(world.cluster, at=after(60)) == 0
    assert settle(world.cluster, at=after(61)) == 1
    Job.objects.filter(pk=job.pk).update(attempt=1, state=JobState.RUNNING)
    PlacementFactory(job=job, node=world.cluster.nodes.first(), attempt=1, bound_at=after(30))
    assert settle(world.cluster, at=after(90)) == 0

    row.refresh_from_db()
    assert (row.held, row.settled_at) == (False, after(60))


def test_a_cancelled_job_settles_nothing(world):
    job = JobFactory(cluster=world.cluster, state=JobState.CANCELLED)
    StartEstimateFactory(job=job, first_at=T0, first_earliest=T0, first_latest=after(60))

    assert settle(world.cluster, at=after(600)) == 0


def test_a_cycle_is_followed_by_a_look_ahead(world, sent, django_capture_on_commit_callbacks):
    ask_for_cycle(world.cluster.pk)

    with django_capture_on_commit_callbacks(execute=True):
        run_cycle(cluster_id=world.cluster.pk)
    look_ahead_task(cluster_id=world.cluster.pk)

    assert ("scheduling.look_ahead", {"cluster_id": world.cluster.pk}) in sent
