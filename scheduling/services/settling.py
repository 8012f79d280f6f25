"""Where the rows of a job say that it is: from its members and groups to its state.

Nothing is asked but the rows, under the job's lock, so it does not matter who settles, how often,
or in what order the reports came.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db import transaction

from portal.core.queueing import send_on_commit
from scheduling.models import Job, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import move, stop
from scheduling.services.losses import (
    MOST_IN_A_ROW,
    is_misplaced,
    stop_for_lost,
    stop_for_misplaced,
    why_failed,
)
from scheduling.services.preempting import count_hold_anew
from scheduling.services.saved_work import after_stop, forget_stop
from scheduling.services.trying_again import AFRESH
from scheduling.services.walltime import begin_limit
from scheduling.states import DISPLACEABLE, ENDED_PHASES, JobState, MemberPhase
from topology.kube.values import GroupSeen
from topology.services.cycle_request import ask_for_cycle

COMPLETE, FAILED = "complete", "failed"
DEADLINE = "DeadlineExceeded"
CALLED_OVER = "called over while its members ran"


@transaction.atomic
def settle(job_id: int, *, at: datetime) -> None:
    """Bring the job to where its rows say it is. at: cluster clock."""
    job = Job.objects.select_for_update().get(pk=job_id)
    freed = _release_ended(job, at=at)
    _let_go_of_leavers(job, at=at)
    moved = True
    while moved and job.state in _STEPS:
        members = list(_members(job))
        moved = _STEPS[JobState(job.state)](job, members, at)
    if freed:
        ask_for_cycle(job.cluster_id)


def _release_ended(job: Job, *, at: datetime) -> bool:
    """Give back what ended members held: a placement goes when the last of its members has."""
    freed = False
    active = Placement.objects.active().filter(job=job)
    for placement in active.prefetch_related("members"):
        members = placement.members.all()
        if all(member.phase in ENDED_PHASES for member in members):
            ended = max((member.ended_at or at for member in members), default=at)
            released = max(ended, placement.bound_at)
            PlacementGpu.objects.filter(placement=placement).update(released_at=released)
            Placement.objects.filter(pk=placement.pk).update(released_at=released)
            freed = True
    return freed


def _let_go_of_leavers(job: Job, *, at: datetime) -> None:
    """A gang that gave members up makes room for nobody any more once they are gone."""
    if job.state != JobState.RUNNING or job.stopping_for_id is None:
        return
    leaving = job.members.filter(attempt=job.attempt, is_leaving=True)
    if not leaving.exclude(phase__in=ENDED_PHASES).exists():
        count_hold_anew(job, gone_at=at)
        Job.objects.filter(pk=job.pk).update(stopping_for=None)
        job.stopping_for_id = None


def _settle_starting(job: Job, members: list[Member], at: datetime) -> bool:
    """Running once every container has started, or once the gang failed by its own doing."""
    if _is_stopped_for_misplaced(job, members, at=at):
        return False
    failure = _failure(job)
    blamed = failure is not None and _is_to_blame(members, failure)
    started = [member for member in members if _has_started(member)]
    if started and (blamed or len(started) == len(members)):
        start = max((m.started_at for m in started if m.started_at is not None), default=at)
        told = begin_limit(job, members, started_at=start)
        return move(job, JobState.RUNNING, at=start, started_at=start, **told, **AFRESH)
    if failure is not None:
        _queue_again_if_lost(job, members, at=at)
    elif _unexplained(job, members):
        _look_after(job)
    return False


def _settle_running(job: Job, members: list[Member], at: datetime) -> bool:
    if _has_succeeded(job, members):
        ended = _not_before_start(job, _end(members, at))
        return move(job, JobState.SUCCEEDED, at=ended, ended_at=ended)
    failure = _failure(job)
    if failure is not None:
        return _settle_failed(job, members, reason=failure, at=at)
    if not _is_stopped_for_misplaced(job, members, at=at) and _unexplained(job, members):
        _look_after(job)
    return False


def _is_stopped_for_misplaced(job: Job, members: list[Member], *, at: datetime) -> bool:
    misplaced = next((member for member in members if is_misplaced(member)), None)
    return misplaced is not None and stop_for_misplaced(job, misplaced, at=at)


def _has_started(member: Member) -> bool:
    """What has succeeded has started, even if nobody says when."""
    return member.started_at is not None or member.phase == MemberPhase.SUCCEEDED


def _has_succeeded(job: Job, members: list[Member]) -> bool:
    """Every member has; or the cluster says so, where we missed how one of them ended."""
    if members and all(member.phase == MemberPhase.SUCCEEDED for member in members):
        return True
    complete = all(outcome == COMPLETE for outcome, _ in _outcomes(job))
    return complete and _all_ended(members)


def _settle_failed(job: Job, members: list[Member], *, reason: str, at: datetime) -> bool:
    """The cluster calls the gang failed: by its own doing, or because it lost a member.

    Which of the two only the members can tell, and their reports may come after this one.
    """
    if _is_to_blame(members, reason):
        return _fail(job, members, reason=reason, at=at)
    if _queue_again_if_lost(job, members, at=at) or not _all_ended(members):
        return False
    return _fail(job, members, reason=reason, at=at)


def _is_to_blame(members: list[Member], reason: str) -> bool:
    """Whether a failed gang failed by itself: in time, or with an exit code."""
    return _ran_out_of_time(members, reason) or any(member.exit_code for member in members)


def _ran_out_of_time(members: list[Member], reason: str) -> bool:
    return reason == DEADLINE or any(m.message.startswith(DEADLINE) for m in members)


def _queue_again_if_lost(job: Job, members: list[Member], *, at: datetime) -> bool:
    """Whether a member was lost, and the job is stopped to be queued again."""
    lost = [member for member in _unexplained(job, members) if not member.exit_code]
    return bool(lost) and stop_for_lost(job, lost[0], at=at)


def _unexplained(job: Job, members: list[Member]) -> list[Member]:
    """Members that ended without success, in groups of which the cluster does not say complete."""
    complete = {
        group.pk for group in job.groups.filter(outcome=COMPLETE, outcome_attempt=job.attempt)
    }
    ended = {MemberPhase.GONE, MemberPhase.FAILED}
    return [m for m in members if m.phase in ended and m.group_id not in complete]


def _look_after(job: Job) -> None:
    send_on_commit("scheduling.look_after_job", job_id=job.pk)


@transaction.atomic
def give_up_if_lost(job_id: int, *, attempt: int, is_gang_gone: bool, at: datetime) -> None:
    """Queue a job again that lost a member, if the cluster does not say that the gang ended.

    A member that ended with an exit code is not lost: the cluster is about to call the gang
    failed. It never will if the gang itself is gone.
    """
    job = Job.objects.select_for_update().get(pk=job_id)
    if job.attempt != attempt or job.state not in DISPLACEABLE or _failure(job) is not None:
        return
    members = list(_members(job))
    unexplained = _unexplained(job, members)
    if unexplained and (is_gang_gone or not any(member.exit_code for member in members)):
        stop_for_lost(job, unexplained[0], at=at)


@transaction.atomic
def fail_if_called_over(job_id: int, *, attempt: int, seen: GroupSeen, at: datetime) -> None:
    """End a job one of whose groups a person called over while its members go on."""
    job = Job.objects.select_for_update().get(pk=job_id)
    if job.attempt == attempt and job.state in DISPLACEABLE:
        why = f"{CALLED_OVER}: {seen.group} is {seen.outcome} in the cluster"
        stop(job, towards=JobState.FAILED, at=at, reason=why)


def _fail(job: Job, members: list[Member], *, reason: str, at: datetime) -> bool:
    """The job has failed or run out of time; what is left of it in the cluster is removed."""
    to = JobState.TIMED_OUT if _ran_out_of_time(members, reason) else JobState.FAILED
    ended = _not_before_start(job, _end(members, at))
    won = move(job, to, at=ended, reason=_why_failed(members, reason), ended_at=ended)
    if won:
        send_on_commit("scheduling.stop_job", job_id=job.pk)
    return won


def _why_failed(members: list[Member], reason: str) -> str:
    failed = [member for member in members if member.exit_code]
    if not failed:
        return reason
    first = min(failed, key=lambda member: (member.ended_at is None, member.ended_at, member.rank))
    return f"member {first.rank} ended with exit code {first.exit_code}"


def _settle_stopping(job: Job, members: list[Member], at: datetime) -> bool:
    if job.members.exclude(phase__in=ENDED_PHASES).exists():
        return False
    count_hold_anew(job, gone_at=at)
    if members and all(member.phase == MemberPhase.SUCCEEDED for member in members):
        forget_stop(job)
        started = job.started_at or max(member.started_at or at for member in members)
        ended = max(started, _end(members, at))
        return move(
            job,
            JobState.SUCCEEDED,
            at=ended,
            stopping_to="",
            stopping_for=None,
            started_at=started,
            ended_at=ended,
        )
    to = JobState(job.stopping_to)
    gone_at = _not_before_start(job, _end(members, at))
    saved = after_stop(job, members, gone_at=gone_at)
    if to == JobState.QUEUED:
        won = move(
            job,
            to,
            at=at,
            reason="stopped",
            stopping_to="",
            stopping_for=None,
            started_at=None,
            **saved,
        )
    else:
        reason = "stopped" if to != JobState.FAILED else _why_stopped_as_failed(job)
        won = move(job, to, at=gone_at, reason=reason, stopping_to="", ended_at=gone_at)
    ask_for_cycle(job.cluster_id)
    return won


def _why_stopped_as_failed(job: Job) -> str:
    is_over = any(outcome for outcome, _ in _outcomes(job))
    return CALLED_OVER if is_over and job.losses_in_a_row < MOST_IN_A_ROW else why_failed(job)


_STEPS: dict[JobState, Callable[[Job, list[Member], datetime], bool]] = {
    JobState.STARTING: _settle_starting,
    JobState.RUNNING: _settle_running,
    JobState.STOPPING: _settle_stopping,
}


def _members(job: Job) -> Iterable[Member]:
    """Of this attempt, in an order that does not change; without those that left their gang."""
    own = job.members.filter(attempt=job.attempt, is_leaving=False)
    return own.select_related("group", "placement__node").order_by("group__index", "rank")


def _failure(job: Job) -> str | None:
    """The cluster's word for why this attempt failed; None while it does not say that it did."""
    return next((reason for outcome, reason in _outcomes(job) if outcome == FAILED), None)


def _outcomes(job: Job) -> list[tuple[str, str]]:
    """How the cluster says each group of this attempt ended, "" for one that has not."""
    return [
        (group.outcome if group.outcome_attempt == job.attempt else "", group.outcome_reason)
        for group in job.groups.order_by("index")
    ]


def _all_ended(members: list[Member]) -> bool:
    return all(member.phase in ENDED_PHASES for member in members)


def _end(members: list[Member], at: datetime) -> datetime:
    """When the last container ended; `at` where no container did."""
    return max((member.ended_at for member in members if member.ended_at), default=at)


def _not_before_start(job: Job, ended: datetime) -> datetime:
    """`ended`, or the job's start where we missed how the member that ended last did."""
    return max(ended, job.started_at or ended)
