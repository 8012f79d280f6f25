"""What a cluster reported, written down: each report may come twice, late, or never.

A report first changes the rows it is about (`observe`), then the job is brought to where its rows
say it is (`settle`). Settling asks the rows alone, so whoever does it last gets it right.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from portal.core.queueing import send_on_commit
from scheduling.models import Job, JobGroup, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import move, stop
from scheduling.states import DISPLACEABLE, ENDED_PHASES, PHASE_ORDER, JobState, MemberPhase
from topology.kube.values import GroupSeen, Listed, MemberSeen
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

COMPLETE, FAILED = "complete", "failed"
DEADLINE = "DeadlineExceeded"


def observe(cluster: Cluster, seen: MemberSeen | GroupSeen | Listed, *, at: datetime) -> None:
    """Take note of one report. at: cluster clock, when it arrived."""
    match seen:
        case MemberSeen():
            _observe_one(_observe_member, cluster, seen, at=at)
        case GroupSeen():
            _observe_one(_observe_group, cluster, seen, at=at)
        case Listed(kind="members"):
            _observe_absent(cluster, seen, at=at)


@transaction.atomic
def _observe_one(
    note: Callable[[Cluster, Any], int | None], cluster: Cluster, seen: Any, *, at: datetime
) -> None:
    """The rows and what follows for their job, together: a crash leaves neither or both."""
    job_id = note(cluster, seen)
    if job_id is not None:
        settle(job_id, at=at)


def _observe_member(cluster: Cluster, seen: MemberSeen) -> int | None:
    """The job to settle, if the report told something new about one of its members."""
    member = (
        Member.objects.select_for_update(of=["self"])
        .filter(
            job__cluster=cluster,
            job__public_id=seen.job,
            group__name=seen.group,
            attempt=seen.attempt,
            rank=seen.rank,
        )
        .first()
    )
    if member is None or member.phase in ENDED_PHASES:
        return None
    if member.pod_uid not in {"", seen.pod_uid}:
        return _replaced(member, seen)
    if seen.version <= member.seen_version:
        return None
    if seen.phase == MemberPhase.GONE and not member.pod_uid:
        return None  # of a pod that never was this member
    _write_member(member, seen)
    return member.job_id


def _replaced(member: Member, seen: MemberSeen) -> int | None:
    """Another pod of the same rank: ours is gone, if that one is newer and there."""
    if seen.phase == MemberPhase.GONE or seen.version <= member.seen_version:
        return None
    note_gone(member)
    return member.job_id


def _write_member(member: Member, seen: MemberSeen) -> None:
    if PHASE_ORDER[MemberPhase(seen.phase)] >= PHASE_ORDER[MemberPhase(member.phase)]:
        member.phase = seen.phase
    member.pod_name, member.pod_uid = seen.pod_name, seen.pod_uid
    member.node_seen = seen.node or member.node_seen
    member.bound_at = seen.bound_at or member.bound_at
    member.started_at = seen.started_at or member.started_at
    member.ended_at = seen.ended_at or member.ended_at
    member.exit_code = seen.exit_code if seen.exit_code is not None else member.exit_code
    member.message = seen.message[:300]
    member.seen_version = seen.version
    member.save()


def note_gone(member: Member) -> None:
    """The pod of `member` is no longer there, or never came to be."""
    Member.objects.filter(pk=member.pk).exclude(phase__in=ENDED_PHASES).update(
        phase=MemberPhase.GONE
    )


def _observe_group(cluster: Cluster, seen: GroupSeen) -> int | None:
    """The job to settle, if the report told that one of its groups has ended."""
    group = JobGroup.objects.filter(
        Q(outcome="") | ~Q(outcome_attempt=seen.attempt),
        job__cluster=cluster,
        job__public_id=seen.job,
        job__attempt=seen.attempt,
        name=seen.group,
    ).first()
    if group is None or not seen.outcome:
        return None
    JobGroup.objects.filter(pk=group.pk).update(
        outcome=seen.outcome, outcome_reason=seen.reason[:80], outcome_attempt=seen.attempt
    )
    return group.job_id


def _observe_absent(cluster: Cluster, seen: Listed, *, at: datetime) -> None:
    """Members whose pod was there once and is not in a full list are gone.

    Job by job, each in a transaction of its own: locks are taken in one order only.
    """
    missing = (
        Member.objects.filter(job__cluster=cluster, seen_version__lte=seen.version)
        .exclude(phase__in=ENDED_PHASES)
        .exclude(pod_uid="")
        .exclude(pod_uid__in=seen.keys)
    )
    by_job: dict[int, list[Member]] = {}
    for member in missing:
        by_job.setdefault(member.job_id, []).append(member)
    for job_id, members in by_job.items():
        with transaction.atomic():
            for member in members:
                note_gone(member)
            settle(job_id, at=at)


@transaction.atomic
def settle(job_id: int, *, at: datetime) -> None:
    """Bring the job to where its rows say it is. at: cluster clock."""
    job = Job.objects.select_for_update().get(pk=job_id)
    freed = _release_ended(job, at=at)
    moved = True
    while moved and job.state in _STEPS:
        members = list(job.members.filter(attempt=job.attempt))
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


def _settle_starting(job: Job, members: list[Member], _at: datetime) -> bool:
    """Running once every container has started, or once the cluster says that the gang failed."""
    starts = [member.started_at for member in members if member.started_at is not None]
    if len(starts) == len(members) or (starts and FAILED in dict(_outcomes(job))):
        return move(job, JobState.RUNNING, at=max(starts), started_at=max(starts))
    _ask_after_lost(job, members)
    return False


def _settle_running(job: Job, members: list[Member], at: datetime) -> bool:
    outcomes = _outcomes(job)
    if all(outcome == COMPLETE for outcome, _ in outcomes) and _all_ended(members):
        return move(job, JobState.SUCCEEDED, at=_end(members, at), ended_at=_end(members, at))
    failed = [reason for outcome, reason in outcomes if outcome == FAILED]
    if failed:
        return _fail(job, members, reason=failed[0], at=at)
    _ask_after_lost(job, members)
    return False


def _ask_after_lost(job: Job, members: list[Member]) -> None:
    if any(map(_is_lost, members)):
        send_on_commit("scheduling.look_after_job", job_id=job.pk)


def _is_lost(member: Member) -> bool:
    """Gone without a result; a pod that the kubelet turned away has failed without one."""
    return member.phase == MemberPhase.GONE or (
        member.phase == MemberPhase.FAILED and member.exit_code is None
    )


@transaction.atomic
def give_up_if_lost(job_id: int, *, at: datetime) -> None:
    """Queue a job again whose member was lost, if the cluster does not say that the gang ended."""
    job = Job.objects.select_for_update().get(pk=job_id)
    lost = [m for m in job.members.filter(attempt=job.attempt).order_by("rank") if _is_lost(m)]
    if job.state in DISPLACEABLE and lost and not any(word for word, _ in _outcomes(job)):
        reason = f"member {lost[0].rank} was lost: {lost[0].message or 'its pod is gone'}"
        stop(job, towards=JobState.QUEUED, at=at, reason=reason)


def _fail(job: Job, members: list[Member], *, reason: str, at: datetime) -> bool:
    """The job has failed or run out of time; what is left of it in the cluster is removed."""
    to = JobState.TIMED_OUT if reason == DEADLINE else JobState.FAILED
    ended = max(_end(members, at), job.started_at or at)
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
    if members and all(member.phase == MemberPhase.SUCCEEDED for member in members):
        started = job.started_at or max(member.started_at or at for member in members)
        ended = _end(members, at)
        return move(job, JobState.SUCCEEDED, at=ended, started_at=started, ended_at=ended)
    to = JobState(job.stopping_to)
    if to == JobState.QUEUED:
        won = move(job, to, at=at, reason="stopped", stopping_to="", started_at=None)
    else:
        ended = max(_end(members, at), job.started_at or at)
        won = move(job, to, at=ended, reason="stopped", stopping_to="", ended_at=ended)
    ask_for_cycle(job.cluster_id)
    return won


_STEPS: dict[JobState, Callable[[Job, list[Member], datetime], bool]] = {
    JobState.STARTING: _settle_starting,
    JobState.RUNNING: _settle_running,
    JobState.STOPPING: _settle_stopping,
}


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
