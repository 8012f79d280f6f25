"""Work that is saved: as members report it, as the engine is told, and as a stopped job goes on."""

import pytest

from scheduling.models import Job, Preemption
from scheduling.reports.preemptions import preemption_texts
from scheduling.services.lifecycle import cancel_job, stop
from scheduling.snapshots import take
from scheduling.snapshots.times import seconds
from scheduling.states import JobState
from tests.scheduling.world import after

STARTED = 10  # seconds after T0, as the world's reports say


def saved(world, job, at, *, rank=0, phase="running", **what):
    world.say(job, phase, rank=rank, checkpoint_at=after(at), at=after(at), **what)


def stopped(world, job, at, **what):
    """The job after a stop for the queue, its members gone since `at`."""
    job.refresh_from_db()
    stop(job, towards=JobState.QUEUED, at=after(at), reason="told to")
    for member in job.members.filter(attempt=job.attempt):
        world.say(job, "failed", rank=member.rank, ended_at=after(at), exit_code=None, **what)
    job.refresh_from_db()
    return job


def test_a_gangs_checkpoint_is_the_earliest_of_its_members_last_ones(world):
    job = world.running(members=2)

    saved(world, job, 300, rank=0)
    saved(world, job, 290, rank=1)
    saved(world, job, 600, rank=0)
    job.refresh_from_db()

    assert job.checkpoint_at == after(290)


def test_a_member_that_reports_none_does_not_hide_the_others(world):
    job = world.running(members=2)

    saved(world, job, 300, rank=0)
    job.refresh_from_db()

    assert job.checkpoint_at == after(300)


def test_the_engine_is_told_the_checkpoint_of_a_running_job(world):
    job = world.running()
    unknown = take(world.cluster, at=after(60)).running[0].checkpoint_at

    saved(world, job, 300)

    assert unknown is None
    assert take(world.cluster, at=after(400)).running[0].checkpoint_at == seconds(after(300))


def test_a_stopped_job_has_saved_what_its_checkpoint_covers(world):
    job = world.running()
    saved(world, job, 300)

    job = stopped(world, job, 400)

    assert (job.state, job.started_at) == ("queued", None)
    assert (job.checkpoint_at, job.saved_seconds) == (after(300), 300 - STARTED)


def test_the_checkpoint_that_it_took_while_it_stopped_counts(world):
    job = world.running()
    saved(world, job, 300)

    job = stopped(world, job, 400, checkpoint_at=after(400))

    assert (job.checkpoint_at, job.saved_seconds) == (after(400), 400 - STARTED)


def test_no_program_has_saved_more_than_the_time_it_had(world):
    job = world.running()
    saved(world, job, 9999)

    job = stopped(world, job, 400)

    assert (job.checkpoint_at, job.saved_seconds) == (after(400), 400 - STARTED)


def test_attempts_add_up_and_one_without_a_checkpoint_adds_nothing(world):
    job = world.running()
    saved(world, job, 300)
    stopped(world, job, 400)

    saved_seconds = []
    for begin in (1000, 2000):
        world.plan(at=after(begin))
        job.refresh_from_db()
        world.say(job, "running", started_at=after(begin), at=after(begin))
        if begin == 2000:
            saved(world, job, 2050, started_at=after(begin))
        job = stopped(world, job, begin + 100)
        saved_seconds.append(job.saved_seconds)

    assert saved_seconds == [290, 340]


def test_a_job_that_was_resumed_has_lost_nothing_from_before(world):
    job = world.running()
    saved(world, job, 300)
    stopped(world, job, 400)
    world.plan(at=after(1000))
    job.refresh_from_db()
    world.say(job, "running", started_at=after(1000), at=after(1000))

    (running,) = take(world.cluster, at=after(1100)).running

    assert running.checkpoint_at == seconds(after(1000))


@pytest.mark.parametrize(
    ("checkpoint", "lost"),
    [(None, 8 * (400 - STARTED)), (300, 8 * 100), (400, 0)],
    ids=["none", "some time ago", "as it stopped"],
)
def test_what_a_stop_cost_is_written_down(world, checkpoint, lost):
    job, claimant = world.running(), world.submit()
    if checkpoint:
        saved(world, job, checkpoint)
    Preemption.objects.create(
        job=job, attempt=job.attempt, claimant=claimant, why="priority", decided_at=after(390)
    )

    stopped(world, job, 400)

    preemption = Preemption.objects.get()
    assert (preemption.gone_at, preemption.lost_gpu_seconds) == (after(400), lost)
    assert preemption.checkpoint_at == (after(checkpoint) if checkpoint else None)


def test_a_checkpoint_is_news_for_the_page(world):
    job = world.running()
    before = Job.objects.get(pk=job.pk).version

    saved(world, job, 300)

    assert Job.objects.get(pk=job.pk).version > before


def being_preempted(world):
    """A job that runs and was told to make room for another."""
    job, claimant = world.running(), world.submit()
    Preemption.objects.create(
        job=job, attempt=job.attempt, claimant=claimant, why="priority", decided_at=after(390)
    )
    stop(job, towards=JobState.QUEUED, at=after(390), reason="told to", stopping_for=claimant)
    return job


def test_a_job_that_finishes_before_its_stop_reaches_it_was_not_preempted(world):
    job = being_preempted(world)

    world.say(job, "succeeded", at=after(400))

    job.refresh_from_db()
    assert (job.state, job.preemptions.count()) == ("succeeded", 0)


def test_a_job_that_is_cancelled_while_it_makes_room_has_made_it_all_the_same(world):
    job = being_preempted(world)
    cancel_job(job, by=world.researcher, at=after(395))

    world.say(job, "failed", ended_at=after(400), exit_code=None, at=after(400))

    job.refresh_from_db()
    assert (job.state, job.preemptions.get().gone_at) == ("cancelled", after(400))
    assert preemption_texts(job) == ()


def test_a_member_that_has_done_its_work_holds_no_checkpoint_back(world):
    job = world.running(members=2)
    saved(world, job, 300, rank=0)
    saved(world, job, 300, rank=1)
    world.say(job, "succeeded", rank=1, checkpoint_at=after(300), at=after(400))

    saved(world, job, 600, rank=0)

    assert Job.objects.get(pk=job.pk).checkpoint_at == after(600)
