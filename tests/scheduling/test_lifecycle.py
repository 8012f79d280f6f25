from contextlib import suppress

import pytest
from django.db import transaction

from portal.core.errors import Conflict, IllegalTransition, NotAllowed
from portal.core.models import AuditEvent
from scheduling.models import Job, JobEvent
from scheduling.services.lifecycle import cancel_job, move, stop
from scheduling.states import FINAL, TRANSITIONS, JobState
from tenants.models import Role
from tests.factories import JobFactory, MembershipFactory
from tests.scheduling.world import T0, after, person, state_of, story


def test_a_move_changes_the_row_and_writes_its_line(world):
    job = world.submit()

    won = move(job, JobState.STARTING, at=after(1), reason="placed", attempt=1)

    line = job.events.get(to_state="starting")
    stored = Job.objects.get(pk=job.pk)
    assert won
    assert (stored.state, stored.attempt, stored.version) == ("starting", 1, 1)
    assert (line.from_state, line.reason, line.at) == ("queued", "placed", after(1))
    assert (job.state, job.attempt) == ("starting", 1)


def test_who_comes_second_loses_and_leaves_no_line(world):
    job = world.submit()
    late = Job.objects.get(pk=job.pk)
    move(job, JobState.CANCELLED, at=T0)

    won = move(late, JobState.STARTING, at=T0)

    assert not won
    assert (late.state, state_of(job)) == ("queued", "cancelled")
    assert story(job) == ["queued", "cancelled"]


def test_a_move_of_an_earlier_attempt_loses(world):
    late = JobFactory(state="starting", attempt=1)
    Job.objects.filter(pk=late.pk).update(attempt=2)

    won = move(late, JobState.RUNNING, at=T0, started_at=T0)

    assert not won


@pytest.mark.parametrize(
    ("before", "to"),
    [(a, b) for a in JobState for b in JobState if b not in TRANSITIONS[a]],
    ids=str,
)
def test_what_may_not_follow_is_refused(before, to):
    job = Job(public_id="j-000001", state=before)

    with pytest.raises(IllegalTransition) as caught:
        move.__wrapped__(job, to, at=T0)

    assert "cannot become" in str(caught.value)


def test_a_change_and_its_line_are_written_together_or_not_at_all(world):
    job = world.submit()

    with suppress(RuntimeError), transaction.atomic():
        cancel_job(job, by=world.researcher, at=T0)
        raise RuntimeError

    assert story(job) == ["queued"]
    assert state_of(job) == "queued"
    assert not AuditEvent.objects.filter(action="cancel_job").exists()


def test_a_waiting_job_is_cancelled_at_once(world, sent, django_capture_on_commit_callbacks):
    job = world.submit()

    with django_capture_on_commit_callbacks(execute=True):
        cancel_job(job, by=world.researcher, at=after(5))

    job.refresh_from_db()
    audit = AuditEvent.objects.get(action="cancel_job")
    assert (job.state, job.ended_at) == ("cancelled", after(5))
    assert (audit.actor, audit.object_id, audit.before) == (
        world.researcher,
        job.public_id,
        {"state": "queued"},
    )
    assert sent == [("scheduling.run_cycle", {"cluster_id": world.cluster.pk})]


def test_a_suspended_job_is_cancelled_at_once(world):
    job = JobFactory(state="suspended", tenant=world.tenant)

    cancel_job(job, by=world.researcher, at=T0)

    assert state_of(job) == "cancelled"


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_job_that_holds_devices_is_stopped_first(
    world, sent, state, django_capture_on_commit_callbacks
):
    job = JobFactory(state=state, tenant=world.tenant)

    with django_capture_on_commit_callbacks(execute=True):
        cancel_job(job, by=world.researcher, at=T0)

    job.refresh_from_db()
    assert (job.state, job.stopping_to, job.ended_at) == ("stopping", "cancelled", None)
    assert sent == [("scheduling.stop_job", {"job_id": job.pk})]


def test_a_job_on_its_way_back_to_the_queue_is_cancelled_instead(world):
    job = world.running()
    stop(job, towards=JobState.QUEUED, at=T0, reason="moved")

    cancel_job(job, by=world.researcher, at=T0)
    world.say(job, "gone")

    assert state_of(job) == "cancelled"


@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_has_ended_cannot_be_cancelled(world, state):
    job = JobFactory(state=state, tenant=world.tenant)

    with pytest.raises(Conflict) as caught:
        cancel_job(job, by=world.researcher, at=T0)

    assert "already ended" in str(caught.value)
    assert not JobEvent.objects.filter(job=job).exists()


def test_who_cancels_what_somebody_else_moved_is_told(world):
    job = world.submit()
    seen = Job.objects.get(pk=job.pk)
    world.plan()

    with pytest.raises(Conflict) as caught:
        cancel_job(seen, by=world.researcher, at=T0)

    assert "look again" in str(caught.value)
    assert state_of(job) == "starting"


def test_a_viewer_may_not_cancel(world):
    job = world.submit()

    with pytest.raises(NotAllowed):
        cancel_job(job, by=person(world.tenant, Role.VIEWER), at=T0)

    assert state_of(job) == "queued"


def test_a_lead_of_another_tenant_may_not_cancel(world):
    job = world.submit()

    with pytest.raises(NotAllowed):
        cancel_job(job, by=MembershipFactory(role=Role.LEAD).user, at=T0)

    assert state_of(job) == "queued"
