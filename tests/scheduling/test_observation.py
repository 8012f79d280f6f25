import pytest

from scheduling.management.commands.watch_cluster import take_in
from scheduling.models import Job, Member, Placement
from scheduling.services.lifecycle import cancel_job, stop
from scheduling.services.settling import settle
from scheduling.states import JobState
from tests.scheduling.world import T0, World, after, held_gpus, state_of, story
from topology.kube.values import ListBegun, Listed
from topology.models import Cluster


def phases(job):
    return list(job.members.order_by("attempt", "rank").values_list("phase", flat=True))


def listed(world, *members):
    return Listed(
        kind="members",
        keys=frozenset(member.pod_uid for member in members),
        version=world.next_version(),
    )


def test_a_member_is_followed_from_its_gate_to_its_end(world):
    job = world.started()
    planned = job.placements.get().node.name

    seen = []
    for phase in ("gated", "binding", "bound", "running", "succeeded"):
        world.say(job, phase, node=planned)
        seen.append((phases(job)[0], state_of(job)))

    assert seen == [
        ("gated", "starting"),
        ("binding", "starting"),
        ("bound", "starting"),
        ("running", "running"),
        ("succeeded", "succeeded"),
    ]


def test_a_job_runs_when_its_last_container_has_started(world):
    job = world.started(members=2)

    world.say(job, "running", rank=0, started_at=after(10))
    between = state_of(job)
    world.say(job, "running", rank=1, started_at=after(12))

    job.refresh_from_db()
    assert (between, job.state, job.started_at) == ("starting", "running", after(12))
    assert job.events.last().at == after(12)


def test_a_job_succeeds_when_the_last_of_its_members_has(world):
    job = world.running(members=2)

    world.say(job, "succeeded", rank=0, ended_at=after(30))
    between = state_of(job)
    world.say(job, "succeeded", rank=1, ended_at=after(25))

    job.refresh_from_db()
    assert (between, job.state, job.ended_at) == ("running", "succeeded", after(30))
    assert held_gpus() == []


def test_a_group_that_is_complete_ends_once_its_members_have(world):
    job = world.running()

    world.end(job, "complete")
    between = state_of(job)
    world.tell(listed(world), at=after(40))

    assert (between, state_of(job)) == ("running", "succeeded")
    assert phases(job) == ["gone"]


def test_an_end_that_was_missed_is_never_before_the_start(world):
    job = world.started(members=2)
    world.say(job, "succeeded", rank=0, started_at=after(1), ended_at=after(5))
    world.say(job, "running", rank=1, started_at=after(10))

    world.end(job, "complete")
    world.tell(listed(world), at=after(40))

    job.refresh_from_db()
    assert (job.state, job.started_at, job.ended_at) == ("succeeded", after(10), after(10))


def test_a_job_of_two_groups_succeeds_with_the_second(world):
    groups = world.request().groups
    job = world.running(groups=(*groups, type(groups[0])(name="other")))

    world.say(job, "succeeded", group="main")
    between = state_of(job)
    world.say(job, "succeeded", group="other")

    assert (between, state_of(job)) == ("running", "succeeded")


def test_every_report_may_come_twice(world):
    job = world.started()
    reports = [world.member(job, phase) for phase in ("gated", "running", "succeeded")]
    reports.append(world.group(job, "complete"))

    for report in reports:
        world.tell(report)
        world.tell(report)

    assert story(job) == ["queued", "starting", "running", "succeeded"]


def test_a_late_report_takes_nothing_back(world):
    job = world.started()
    early = world.member(job, "gated")
    world.say(job, "running")

    world.tell(early)

    assert (phases(job), state_of(job)) == (["running"], "running")


def test_reports_in_reverse_order_end_in_the_same_state(world):
    job = world.started()
    reports = [world.member(job, phase) for phase in ("gated", "running", "succeeded")]

    for report in (world.group(job, "complete"), *reversed(reports)):
        world.tell(report)

    job.refresh_from_db()
    assert (job.state, job.started_at, job.ended_at) == ("succeeded", after(10), after(20))
    assert story(job) == ["queued", "starting", "running", "succeeded"]


def test_a_report_of_a_later_step_with_an_old_version_is_ignored(world):
    job = world.started()
    world.say(job, "gated", version=50)

    world.say(job, "running", version=49)

    assert phases(job) == ["gated"]


def test_a_pod_of_a_cluster_that_came_back_empty_and_counts_from_lower_down_is_gone(world):
    job = world.running()
    Member.objects.update(seen_version=5000)

    world.tell(ListBegun(kind="members", version=7))
    world.tell(Listed(kind="members", keys=frozenset(), version=7))

    assert phases(job) == ["gone"]


def test_a_pod_that_a_cluster_has_after_it_was_restored_is_followed_on(world):
    job = world.running()
    Member.objects.update(seen_version=5000)

    world.tell(ListBegun(kind="members", version=7))
    world.say(job, "succeeded", version=6)

    assert state_of(job) == "succeeded"


def test_a_list_of_no_lower_version_leaves_what_is_known(world):
    job = world.started()
    world.say(job, "gated", version=50)

    world.tell(ListBegun(kind="members", version=50))
    world.say(job, "running", version=49)

    assert phases(job) == ["gated"]


def test_a_report_of_an_earlier_attempt_changes_nothing_of_this_one(world):
    job = world.running()
    stop(job, towards=JobState.QUEUED, at=after(11), reason="moved")
    world.say(job, "gone")
    world.plan(at=after(12))

    world.say(job, "failed", attempt=1)
    world.end(job, "failed", attempt=1)

    assert state_of(job) == "starting"
    assert phases(job) == ["gone", "expected"]


def test_a_report_of_another_cluster_changes_nothing(world):
    job = world.started()
    other = World.of(nodes=1)

    other.tell(world.member(job, "running"))

    assert phases(job) == ["expected"]


def test_a_report_about_what_nobody_knows_is_no_error(world):
    job = world.started()

    world.say(job, "running", rank=7)
    world.end(job, "complete", group="other")

    assert state_of(job) == "starting"


def test_a_pod_in_the_place_of_another_means_that_the_other_is_gone(world):
    job = world.started()
    world.say(job, "bound", pod_uid="first")

    world.say(job, "gated", pod_uid="second")

    assert phases(job) == ["gone"]


def test_an_old_pod_does_not_take_the_place_of_a_newer_one(world):
    job = world.started()
    old = world.member(job, "gone", pod_uid="first")
    world.say(job, "bound", pod_uid="second")

    world.tell(old)

    assert phases(job) == ["bound"]


def test_a_pod_that_is_not_listed_is_gone(world):
    job = world.running(members=2)
    there = world.member(job, "running", rank=0)

    world.tell(listed(world, there), at=after(40))

    assert phases(job) == ["running", "gone"]


def test_a_list_is_taken_in_job_by_job(world):
    job, broken = world.running(), world.running()
    Job.objects.filter(pk=broken.pk).update(state=JobState.STOPPING, stopping_to="nowhere")
    stop(job, towards=JobState.CANCELLED, at=after(30), reason="cancelled")

    take_in(world.cluster, listed(world))

    assert [state_of(own) for own in (job, broken)] == ["cancelled", "stopping"]


def test_a_pod_newer_than_the_list_is_not_taken_for_gone(world):
    job = world.started()
    before = listed(world)
    world.say(job, "running")

    world.tell(before)

    assert phases(job) == ["running"]


def test_a_member_whose_pod_was_never_seen_is_not_gone(world):
    job = world.started()

    world.tell(listed(world))

    assert phases(job) == ["expected"]


def test_a_gang_that_failed_by_an_exit_code_has_failed(
    world, sent, django_capture_on_commit_callbacks
):
    job = world.running(members=2)
    world.say(job, "failed", rank=1, exit_code=3, ended_at=after(15))

    with django_capture_on_commit_callbacks(execute=True):
        world.end(job, "failed", reason="BackoffLimitExceeded")

    job.refresh_from_db()
    assert (job.state, job.ended_at) == ("failed", after(15))
    assert job.events.last().reason == "member 1 ended with exit code 3"
    assert ("scheduling.stop_job", {"job_id": job.pk}) in sent


def test_a_failure_is_told_even_if_its_member_is_heard_of_later(world):
    job = world.running()

    world.end(job, "failed", reason="BackoffLimitExceeded")
    between = state_of(job)
    world.say(job, "failed", exit_code=3)

    assert (between, state_of(job)) == ("running", "failed")


def test_a_failed_job_holds_its_devices_until_its_members_are_gone(world):
    job = world.running(members=2)
    world.say(job, "failed", rank=1)
    world.end(job, "failed")
    between = len(held_gpus())

    world.say(job, "gone", rank=0)

    assert (state_of(job), between, held_gpus()) == ("failed", 8, [])


def test_a_gang_that_fails_before_all_have_started_has_failed(world):
    job = world.started(members=2)
    world.say(job, "bound", rank=1)
    world.say(job, "failed", rank=0, started_at=after(10), ended_at=after(11))

    world.end(job, "failed")

    job.refresh_from_db()
    assert story(job) == ["queued", "starting", "running", "failed"]
    assert (job.started_at, job.ended_at) == (after(10), after(11))


@pytest.mark.parametrize("heard_of", ["group", "member"])
def test_a_job_that_ran_too_long_has_timed_out(world, heard_of):
    job = world.running()
    deadline = "DeadlineExceeded"

    world.say(job, "failed", exit_code=137, message=deadline if heard_of == "member" else "")
    world.end(job, "failed", reason=deadline if heard_of == "group" else "BackoffLimitExceeded")

    assert state_of(job) == "timed_out"


@pytest.mark.parametrize("phase", ["gone", "failed"])
def test_a_lost_member_has_the_job_looked_after(
    world, sent, phase, django_capture_on_commit_callbacks
):
    job = world.running(members=2)

    with django_capture_on_commit_callbacks(execute=True):
        world.say(job, phase, rank=0, exit_code=None)

    assert ("scheduling.look_after_job", {"job_id": job.pk}) in sent
    assert state_of(job) == "running"


@pytest.mark.parametrize("phase", ["bound", "running"])
def test_a_gang_of_which_a_member_is_elsewhere_than_planned_is_stopped_to_run_again(world, phase):
    job = world.started(members=2)
    own = {m.rank: m.placement.node.name for m in job.members.all()}

    world.say(job, phase, rank=0, node=own[0])
    before = state_of(job)
    world.say(job, phase, rank=1, node="elsewhere")

    job.refresh_from_db()
    assert (before, job.state, job.stopping_to) == ("starting", "stopping", "queued")
    assert job.events.last().reason == f"member 1 is on elsewhere, not on {own[1]}"
    assert job.losses_in_a_row == 1


def test_a_member_that_has_ended_elsewhere_than_planned_has_ended_all_the_same(world):
    job = world.started()

    world.say(job, "succeeded", node="elsewhere")

    assert state_of(job) == "succeeded"


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_gang_that_failed_because_a_member_was_lost_is_stopped_to_run_again(world, state):
    job = world.started(members=2)
    if state == "running":
        world.say(job, "running", rank=0)
        world.say(job, "running", rank=1)
    world.say(job, "failed", rank=1, exit_code=None, started_at=None, message="Evicted")

    world.end(job, "failed", reason="BackoffLimitExceeded")

    job.refresh_from_db()
    assert (job.state, job.stopping_to) == ("stopping", "queued")
    assert job.events.last().reason == "member 1 was lost: Evicted"


def test_a_stopped_job_is_queued_again_when_its_members_are_gone(world):
    job = world.running(members=2)
    stop(job, towards=JobState.QUEUED, at=after(11), reason="moved")

    world.say(job, "failed", rank=0, exit_code=143)
    between = state_of(job)
    world.say(job, "gone", rank=1)

    job.refresh_from_db()
    assert between == "stopping"
    assert (job.state, job.stopping_to, job.started_at, job.ended_at) == ("queued", "", None, None)
    assert held_gpus() == []


def test_a_cancelled_job_ends_when_its_members_are_gone(world):
    job = world.running()
    cancel_job(job, by=world.researcher, at=after(11))

    world.say(job, "failed", exit_code=143, ended_at=after(15))

    job.refresh_from_db()
    assert (job.state, job.ended_at) == ("cancelled", after(15))


def test_a_stop_that_finds_all_members_succeeded_changes_nothing_about_it(world):
    job = world.running(members=2)
    world.say(job, "succeeded", rank=0)
    cancel_job(Job.objects.get(pk=job.pk), by=world.researcher, at=after(30))

    world.say(job, "succeeded", rank=1)

    job.refresh_from_db()
    assert (job.state, job.stopping_to, job.ended_at) == ("succeeded", "", after(20))


def test_a_placement_is_released_when_the_last_of_its_members_ended(world):
    job = world.running(members=4, gpus=2)

    for rank, end in enumerate((30, 50, 40)):
        world.say(job, "succeeded", rank=rank, ended_at=after(end))
    between = held_gpus()
    world.say(job, "succeeded", rank=3, ended_at=after(45))

    placement = Placement.objects.get()
    assert len(between) == 8
    assert placement.released_at == after(50)
    assert {device.released_at for device in placement.devices.all()} == {after(50)}


def test_each_node_is_given_back_by_itself_and_a_cycle_asked_for(world):
    job = world.running(members=2)
    asked = Cluster.objects.get(pk=world.cluster.pk).cycle_asked

    world.say(job, "succeeded", rank=0)

    assert len(held_gpus()) == 8
    assert Cluster.objects.get(pk=world.cluster.pk).cycle_asked == asked + 1


def test_a_container_that_ended_before_its_placement_began_leaves_none_backwards(world):
    job = world.submit(at=after(100))
    world.plan(at=after(100))
    job.refresh_from_db()

    world.say(job, "succeeded", started_at=after(1), ended_at=after(2), at=after(101))

    placement = Placement.objects.get()
    assert (placement.bound_at, placement.released_at) == (after(100), after(100))


def test_settling_a_job_that_waits_or_has_ended_does_nothing(world):
    waiting = world.submit(gpus=8, members=3)
    ended = world.running()
    world.say(ended, "succeeded")

    settle(waiting.pk, at=T0)
    settle(ended.pk, at=T0)

    assert (state_of(waiting), state_of(ended)) == ("queued", "succeeded")


def test_a_long_message_is_cut_and_kept(world):
    job = world.started()

    world.say(job, "bound", message="x" * 1000)

    assert Member.objects.get().message == "x" * 300


def lose(world, job, *, at, ran=30):
    """The next attempt of the job starts, loses its member some seconds later, and is gone."""
    world.plan(at=after(at))
    job.refresh_from_db()
    world.say(job, "running", started_at=after(at), at=after(at))
    seconds = at + ran
    world.say(job, "failed", ended_at=after(seconds), exit_code=None, message="Evicted")
    world.end(job, "failed", reason="BackoffLimitExceeded", at=after(seconds))
    settle(job.pk, at=after(seconds))  # as the task does that removes what is left
    job.refresh_from_db()


def test_a_job_whose_pods_are_taken_away_again_and_again_fails_and_says_so(world):
    job = world.submit(gpus=1)
    states = []

    for attempt in range(5):
        lose(world, job, at=100 * attempt)
        states.append(job.state)

    assert states == ["queued"] * 4 + ["failed"]
    assert job.events.last().reason == "lost members 5 times in a row"
    assert held_gpus() == []


def test_a_loss_after_a_long_run_is_not_one_of_a_row(world):
    job = world.submit(gpus=1)
    Job.objects.filter(pk=job.pk).update(losses_in_a_row=4)

    lose(world, job, at=0, ran=3600)

    assert (job.state, job.losses_in_a_row) == ("queued", 1)
