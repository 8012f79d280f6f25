"""Quota that was lent is taken back: who goes, what is kept meanwhile, and that it ends."""

import pytest

from scheduling.engine.explain import ChangeKind
from scheduling.models import DeviceHold, Job, Preemption
from scheduling.services.changing import JobChange, change_waiting_job
from scheduling.services.holding import hold_job
from scheduling.states import JobState
from tests.scheduling.world import after, lender_and_borrower, state_of, story


@pytest.fixture
def both(db):
    return lender_and_borrower()


@pytest.fixture
def lender(both):
    return both[0]


@pytest.fixture
def borrower(both):
    return both[1]


def gone(world, job, *, at):
    job.refresh_from_db()
    version = 10_000 + at  # of any report the newest: two worlds count for themselves
    world.say(job, "gone", version=version, at=after(at))


def test_the_job_that_lost_least_work_gives_its_gpus_back(lender, borrower):
    jobs = [borrower.running(gpus=4), borrower.running(gpus=4)]
    for job, saved_at in zip(jobs, (100, 300), strict=True):
        borrower.say(job, "running", checkpoint_at=after(saved_at), at=after(saved_at))
    owner = lender.submit(gpus=4, at=after(400))

    lender.plan(at=after(400))

    assert [state_of(job) for job in (*jobs, owner)] == ["running", "stopping", "queued"]
    assert list(Preemption.objects.values_list("job", "claimant", "why")) == [
        (jobs[1].pk, owner.pk, "reclaim")
    ]


def test_the_owner_starts_in_the_cycle_after_the_victim_is_gone(lender, borrower):
    victim = borrower.running()
    owner = lender.submit(at=after(100))
    lender.plan(at=after(100))
    gone(borrower, victim, at=130)

    lender.plan(at=after(131))

    assert (state_of(owner), state_of(victim)) == ("starting", "queued")
    stop = victim.events.get(to_state="stopping")
    assert stop.reason == "preempted for another tenant's job"


@pytest.mark.parametrize("delay", [0, 1, 100_000], ids=["none", "a second", "more than a day"])
def test_room_is_kept_however_long_the_stop_and_the_next_cycle_take(lender, borrower, delay):
    victim = borrower.running()  # first in the queue whenever it waits
    owner = lender.submit(at=after(100))
    lender.plan(at=after(100))
    lender.plan(at=after(5000))  # long after what was kept for the owner would have expired
    gone(borrower, victim, at=6000)

    lender.plan(at=after(6000 + delay))

    assert story(victim)[-2:] == ["stopping", "queued"]
    assert state_of(owner) == "starting"


def test_room_that_its_owner_does_not_take_is_given_up_in_the_end(lender, borrower):
    victim = borrower.running()
    owner = lender.submit(at=after(100))
    lender.plan(at=after(100))
    gone(borrower, victim, at=200)
    hold_job(owner, by=lender.researcher)
    states = []

    for at in (201, 1999, 2001, 2002):  # half an hour after the victim was gone it expires
        lender.plan(at=after(at))
        states.append(state_of(victim))

    assert states == ["queued", "queued", "queued", "starting"]


def test_a_victim_that_could_not_be_stopped_is_asked_again_in_the_next_cycle(lender, borrower):
    """As when it was moved between the snapshot and the stop: what is kept is not coming free."""
    victim = borrower.running()
    owner = lender.submit(at=after(100))
    lender.plan(at=after(100))
    Job.objects.filter(pk=victim.pk).update(
        state=JobState.RUNNING, stopping_to="", stopping_for=None
    )
    Preemption.objects.all().delete()

    lender.plan(at=after(101))

    assert (state_of(victim), state_of(owner)) == ("stopping", "queued")


@pytest.mark.parametrize(
    ("kind", "value"), [(ChangeKind.GPUS_PER_MEMBER, "2"), (ChangeKind.MEMBERS, "1")]
)
def test_what_was_kept_is_let_go_when_its_owner_asks_for_less_and_waits(
    lender, borrower, kind, value
):
    borrower.running()
    owner = lender.submit(members=2, gpus=4, at=after(100))
    lender.plan(at=after(100))
    owner.refresh_from_db()
    change = JobChange(kind, value)
    change_waiting_job(owner, change, by=lender.researcher, seen=owner.version)
    hold_job(owner, by=lender.researcher)

    lender.plan(at=after(101))

    assert not DeviceHold.objects.exists()
