from datetime import timedelta

import pytest

from scheduling.engine.explain import ChangeKind
from scheduling.models import Job
from scheduling.services import binding
from scheduling.services.changing import JobChange, change_waiting_job
from scheduling.services.holding import hold_job, release_job
from scheduling.services.observation import note_gone
from scheduling.services.reconciling import reconcile
from scheduling.services.settling import settle
from scheduling.services.trying_again import AFRESH, LONGEST_WAIT, after_failed_start
from tests.scheduling.world import T0, after, state_of
from topology.kube.gateway import NotThere


@pytest.fixture
def failed(world):
    """A job whose first start was given up at T0, since nothing was bound in time."""
    job = world.started(members=2)
    Job.objects.filter(pk=job.pk).update(release_by=after(-60))
    reconcile(world.cluster, at=T0)
    for member in job.members.all():
        note_gone(member)
    settle(job.pk, at=T0)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("failed_starts", "seconds"), [(0, 10), (1, 20), (2, 40), (5, 320), (6, 600), (5000, 600)]
)
def test_each_start_that_fails_is_followed_by_a_longer_wait_up_to_a_limit(failed_starts, seconds):
    waits = after_failed_start(Job(failed_starts=failed_starts), at=T0)

    assert waits == {"failed_starts": failed_starts + 1, "start_again_at": after(seconds)}
    assert timedelta(seconds=seconds) <= LONGEST_WAIT


def test_what_a_start_that_failed_would_take_again_goes_to_the_next_job(world, failed):
    next_one = world.submit(members=2, at=after(5))

    world.plan(at=after(9))

    failed.refresh_from_db()
    assert (state_of(next_one), failed.state, failed.attempt) == ("starting", "queued", 1)
    assert (failed.reason, failed.submitted_at) == ("not_before", T0)


def test_a_job_whose_start_failed_is_tried_again_in_its_turn(world, failed):
    next_one = world.submit(members=2, at=after(5))

    world.plan(at=after(10))

    assert (state_of(next_one), state_of(failed)) == ("queued", "starting")


def test_a_start_whose_gang_somebody_removed_has_failed(world, monkeypatch):
    job = world.started()
    monkeypatch.setattr(binding, "_bind", raising(NotThere("it is gone")))

    binding.bind(job.pk, 1, gateway=None, at=T0)

    job.refresh_from_db()
    assert (job.stopping_to, job.failed_starts) == ("queued", 1)
    assert job.start_again_at == after(10)


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_a_job_that_has_started_has_no_failed_start_behind_it(world, failed):
    world.plan(at=after(10))
    failed.refresh_from_db()

    for rank in (0, 1):
        world.say(failed, "running", rank=rank, at=after(12))

    assert (state_of(failed), tries(failed)) == ("running", AFRESH)


def test_a_job_that_somebody_changes_is_tried_at_once(failed, world):
    change = JobChange(ChangeKind.MEMBERS, "1")

    change_waiting_job(failed, change, by=world.researcher, seen=failed.version)

    assert tries(failed) == AFRESH


def test_a_job_that_somebody_releases_is_tried_at_once(failed, world):
    hold_job(failed, by=world.researcher)
    held = tries(failed)

    release_job(failed, by=world.researcher)

    assert held == {"failed_starts": 1, "start_again_at": after(10)}
    assert tries(failed) == AFRESH


def tries(job):
    return Job.objects.values(*AFRESH).get(pk=job.pk)
