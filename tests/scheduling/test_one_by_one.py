"""One job that cannot be brought up to date keeps no other waiting."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.models import Job, Member
from scheduling.services.lifecycle import stop
from scheduling.services.reconciling import reconcile
from scheduling.states import JobState
from tests.scheduling.world import T0, after, state_of
from topology.kube.values import Listed


def nail(job):
    """Have the database refuse to let `job` change its state."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "ALTER TABLE scheduling_job ADD CONSTRAINT nailed CHECK (id <> %s OR state = %s)",
            [job.pk, job.state],
        )


def phases(job):
    return list(Member.objects.filter(job=job).values_list("phase", flat=True))


@pytest.fixture
def failures(caplog):
    """What was logged with a traceback."""
    return lambda: [record.getMessage() for record in caplog.records if record.exc_info]


def test_pods_that_a_full_list_lacks_are_gone_but_for_a_job_that_cannot_be_settled(world, failures):
    nailed, other = world.running(), world.running()
    for job in (nailed, other):
        stop(job, towards=JobState.QUEUED, at=T0, reason="moved")
    nail(nailed)

    world.tell(Listed(kind="members", keys=frozenset(), version=world.next_version()))

    assert [state_of(nailed), state_of(other)] == ["stopping", "queued"]
    assert [phases(nailed), phases(other)] == [["running"], ["gone"]]
    assert failures() == [f"left as it was: {nailed.pk}"]


def test_the_beat_stops_what_is_late_but_for_a_job_that_cannot_be_stopped(world, failures):
    nailed, late = world.started(gpus=1), world.started(gpus=1)
    overdue = world.running(gpus=1, walltime_seconds=60)
    past = timezone.now() - timedelta(minutes=1)
    Job.objects.filter(state=JobState.STARTING).update(release_by=past)
    nail(nailed)

    reconcile(world.cluster, at=after(70))

    states = [state_of(job) for job in (nailed, late, overdue)]
    assert states == ["starting", "stopping", "stopping"]
    assert failures() == [f"left as it was: {nailed}"]
