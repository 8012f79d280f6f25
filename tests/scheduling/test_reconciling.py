from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Job
from scheduling.services.lifecycle import cancel_job, stop
from scheduling.services.observation import note_gone
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest
from scheduling.services.settling import fail_if_called_over, give_up_if_lost, settle
from scheduling.states import JobState
from tests.scheduling.world import T0, World, after, state_of, story


def past():
    return timezone.now() - timedelta(minutes=1)


@pytest.fixture
def asked_again(world, sent, django_capture_on_commit_callbacks):
    """The tasks that reconciling the world's cluster queues."""

    def asked(at=T0):
        sent.clear()
        with django_capture_on_commit_callbacks(execute=True):
            reconcile(world.cluster, at=at)
        return sent

    return asked


def test_what_is_as_it_should_be_is_left_alone(world, asked_again):
    world.submit(gpus=8, members=3)
    world.running()
    ended = world.running()
    world.say(ended, "succeeded")

    assert asked_again() == []


def test_a_start_that_nobody_carried_out_is_queued_again(world, asked_again):
    job = world.started()

    assert asked_again() == [("scheduling.bind_job", {"job_id": job.pk, "attempt": 1})]


def test_a_stop_that_nobody_carried_out_is_queued_again(world, asked_again):
    job = world.running()
    cancel_job(job, by=world.researcher, at=T0)

    assert asked_again() == [("scheduling.stop_job", {"job_id": job.pk})]


def test_what_a_failed_job_left_in_the_cluster_is_removed(world, asked_again):
    job = world.running(members=2)
    world.say(job, "failed", rank=0)
    world.end(job, "failed")

    assert asked_again() == [("scheduling.stop_job", {"job_id": job.pk})]


def test_a_start_that_did_not_bind_in_time_is_taken_back(world, asked_again):
    job = world.started()
    Job.objects.filter(pk=job.pk).update(release_by=past())

    asked_again()

    job.refresh_from_db()
    assert (job.state, job.stopping_to) == ("stopping", "queued")


def test_a_start_on_its_nodes_waits_for_its_containers(world, asked_again):
    job = world.started()
    world.say(job, "bound")
    Job.objects.filter(pk=job.pk).update(release_by=past())

    asked_again()

    assert state_of(job) == "starting"


@pytest.mark.parametrize(("seconds", "state"), [(69, "running"), (70, "stopping")])
def test_a_job_is_stopped_when_its_walltime_is_over(world, asked_again, seconds, state):
    job = world.running(walltime_seconds=60)

    asked_again(at=after(seconds))

    assert state_of(job) == state


def test_a_job_stopped_at_its_walltime_has_timed_out(world, asked_again):
    job = world.running(walltime_seconds=60)
    asked_again(at=after(70))

    world.say(job, "failed", exit_code=143, ended_at=after(75))

    job.refresh_from_db()
    assert (job.state, job.ended_at) == ("timed_out", after(75))


def test_a_job_without_a_walltime_runs_on(world, asked_again):
    job = world.running()

    asked_again(at=after(10**8))

    assert state_of(job) == "running"


def test_a_job_with_a_member_lost_is_looked_after(world, asked_again):
    job = world.running(members=2)
    world.say(job, "gone", rank=0)

    assert asked_again() == [("scheduling.look_after_job", {"job_id": job.pk})]


def test_the_jobs_of_another_cluster_are_left_alone(world, asked_again):
    World.of().started()

    assert asked_again() == []


@pytest.mark.parametrize("exit_code", [None, 1])
def test_a_lost_member_is_given_up_unless_its_gang_is_about_to_fail(world, exit_code):
    job = world.running(members=2)
    phase = "gone" if exit_code is None else "failed"
    world.say(job, phase, rank=0, exit_code=exit_code, started_at=None, ended_at=None)

    give_up_if_lost(job.pk, attempt=1, is_gang_gone=False, at=T0)

    assert state_of(job) == ("stopping" if exit_code is None else "running")


def test_a_gang_that_somebody_removed_is_given_up_whatever_its_members_said(world):
    job = world.running()
    world.say(job, "failed", exit_code=143)

    give_up_if_lost(job.pk, attempt=1, is_gang_gone=True, at=T0)

    job.refresh_from_db()
    assert (job.state, job.stopping_to) == ("stopping", "queued")


def test_a_look_at_an_earlier_attempt_stops_nothing_of_this_one(world):
    job = world.running()
    stop(job, towards=JobState.QUEUED, at=T0, reason="moved")
    world.say(job, "gone")
    world.plan(at=after(60))

    give_up_if_lost(job.pk, attempt=1, is_gang_gone=True, at=T0)

    assert state_of(job) == "starting"


def test_a_member_gone_from_a_complete_group_is_not_lost(world):
    groups = world.request().groups
    job = world.running(groups=(*groups, type(groups[0])(name="other")))
    world.say(job, "gone", group="main")
    world.end(job, "complete", group="main")

    give_up_if_lost(job.pk, attempt=1, is_gang_gone=False, at=T0)

    assert state_of(job) == "running"


def test_a_member_lost_beside_a_complete_group_is_given_up(world):
    groups = world.request().groups
    job = world.running(groups=(*groups, type(groups[0])(name="other")))
    world.say(job, "succeeded", group="main")
    world.end(job, "complete", group="main")
    world.say(job, "gone", group="other")

    give_up_if_lost(job.pk, attempt=1, is_gang_gone=False, at=T0)

    job.refresh_from_db()
    assert (job.state, job.stopping_to) == ("stopping", "queued")


GATE = "kueue.x-k8s.io/admission"


@pytest.fixture
def kept_back(world, asked_again):
    """A job whose start was given up, since a gate of others kept one of its two members back."""
    job = world.started(members=2)
    world.say(job, "gated", rank=1, foreign_gates=(GATE,))
    Job.objects.filter(pk=job.pk).update(release_by=past())
    asked_again()
    for member in job.members.all():
        note_gone(member)
    settle(job.pk, at=after(20))
    job.refresh_from_db()
    return job


def why(world, job):
    """What the next cycle says of a waiting job."""
    world.plan(at=after(60))
    job.refresh_from_db()
    return job.state, job.reason, job.reason_numbers


def test_a_start_that_a_foreign_gate_kept_back_waits_and_says_whose_gate_it_is(world, kept_back):
    assert why(world, kept_back) == ("queued", "foreign_gate", {"gate": GATE})
    assert story(kept_back) == ["queued", "starting", "stopping", "queued"]


def test_a_start_that_a_foreign_gate_kept_back_is_tried_again_after_a_while(
    world, kept_back, asked_again
):
    asked_again()
    early = why(world, kept_back)
    Job.objects.filter(pk=kept_back.pk).update(gates_until=past())

    assert early[1] == "foreign_gate"
    assert ("scheduling.run_cycle", {"cluster_id": world.cluster.pk}) in asked_again()
    assert why(world, kept_back)[0] == "starting"


@pytest.mark.parametrize("outcome", ["failed", "complete"])
def test_a_job_that_is_called_over_while_its_members_run_is_looked_after(
    world, asked_again, outcome
):
    job = world.running(members=2)
    world.end(job, outcome)

    assert asked_again() == [("scheduling.look_after_job", {"job_id": job.pk})]


def test_one_group_that_has_ended_is_nothing_to_look_after_while_another_runs(world, asked_again):
    groups = (GroupRequest(name="a"), GroupRequest(name="b"))
    job = world.running(groups=groups)
    world.say(job, "succeeded", group="a")
    world.end(job, "complete", group="a")

    assert asked_again() == []


def test_a_job_that_a_person_called_over_has_failed_once_its_members_are_gone(world):
    job = world.running(members=2)
    over = world.group(job, "failed")
    world.tell(over)

    fail_if_called_over(job.pk, attempt=1, seen=over, at=T0)
    stopping = state_of(job)
    for rank in (0, 1):
        world.say(job, "gone", rank=rank)

    reasons = list(job.events.order_by("pk").values_list("to_state", "reason"))
    assert stopping == "stopping"
    assert reasons[-2:] == [
        ("stopping", "called over while its members ran: main is failed in the cluster"),
        ("failed", "called over while its members ran"),
    ]


def test_an_earlier_attempt_that_was_called_over_ends_nothing_of_this_one(world):
    job = world.running()

    fail_if_called_over(job.pk, attempt=0, seen=world.group(job, "failed", attempt=0), at=T0)

    assert state_of(job) == "running"
