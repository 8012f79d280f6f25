"""The longest run: warned of, told to the cluster, and over."""

import pytest

from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.services.reconciling import reconcile
from scheduling.services.walltime import warn
from tests.scheduling.world import after, state_of

HOUR = 3600


@pytest.fixture
def reconciled(world, sent, django_capture_on_commit_callbacks):
    """The tasks that reconciling the world's cluster queues."""

    def done(at):
        sent.clear()
        with django_capture_on_commit_callbacks(execute=True):
            reconcile(world.cluster, at=at)
        return sent

    return done


def warnings(job):
    found = AuditEvent.objects.filter(action="warn_job", object_id=job.public_id)
    return [line.after for line in found]


@pytest.mark.parametrize(
    ("walltime", "ahead"),
    [(10 * HOUR, 900), (2 * HOUR, 720), (600, 120), (100, 50)],
    ids=["a quarter of an hour at most", "a tenth", "two minutes at least", "half at most"],
)
def test_a_job_is_warned_once_before_its_end(world, reconciled, walltime, ahead):
    job = world.running(walltime_seconds=walltime)

    reconciled(after(10 + walltime - ahead - 1))
    before = warnings(job)
    tasks = list(reconciled(after(10 + walltime - ahead)))
    reconciled(after(10 + walltime - 1))

    job.refresh_from_db()
    task = ("scheduling.limit_job", {"job_id": job.pk, "attempt": 1})
    assert (before, job.state) == ([], "running")
    assert job.warned_at == after(10 + walltime - ahead)
    assert warnings(job) == [{"ends_at": after(10 + walltime).isoformat()}]
    assert [event.reason for event in job.events.order_by("pk")][-1] == (
        "its longest run is nearly over"
    )
    assert task in tasks


def test_a_job_without_a_limit_is_never_warned(world, reconciled):
    job = world.running()

    assert reconciled(after(10_000 * HOUR)) == []
    assert warnings(job) == []


def test_a_warning_that_comes_after_an_extension_is_not_given(world):
    job = world.running(walltime_seconds=HOUR)
    Job.objects.filter(pk=job.pk).update(walltime_seconds=9 * HOUR)

    assert warn(job, at=after(HOUR)) is False
    assert warnings(job) == []


def test_what_the_cluster_was_not_told_is_told_again(world, reconciled):
    job = world.running(walltime_seconds=10 * HOUR)
    Job.objects.filter(pk=job.pk).update(is_end_untold=True)

    assert reconciled(after(20)) == [("scheduling.limit_job", {"job_id": job.pk, "attempt": 1})]


def test_a_job_that_took_long_to_start_has_its_wall_moved(world):
    soon, late = world.started(walltime_seconds=HOUR), world.started(walltime_seconds=HOUR)
    world.say(soon, "running", started_at=after(1800))
    world.say(late, "running", started_at=after(1801))

    assert not Job.objects.get(pk=soon.pk).is_end_untold
    assert Job.objects.get(pk=late.pk).is_end_untold


def test_the_next_attempt_is_warned_anew(world, reconciled):
    job = world.running(walltime_seconds=HOUR)
    reconciled(after(HOUR))
    assert Job.objects.get(pk=job.pk).warned_at is not None
    Job.objects.filter(pk=job.pk).update(state="starting", attempt=2)
    job.members.update(attempt=2, phase="bound", seen_version=0, started_at=None)
    job.refresh_from_db()

    world.say(job, "running", pod_uid=job.members.get().pod_uid)

    assert state_of(job) == "running"
    assert Job.objects.get(pk=job.pk).warned_at is None
