"""What a lost message left behind: rows that say one thing while nobody works on it."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from portal.core.queueing import send_again
from scheduling.models import Job, JobGroup, Member, Placement
from scheduling.querysets import JobQuerySet
from scheduling.services.lifecycle import stop
from scheduling.services.one_by_one import one_by_one
from scheduling.services.scaling import take_back_late
from scheduling.services.trying_again import after_failed_start
from scheduling.services.walltime import out_of_time, to_warn, warn
from scheduling.states import ENDED_PHASES, FINAL, JobState, MemberPhase
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

# Times the time to bind: how long others' gates are left alone before a start is tried again.
_GATE_PATIENCE = 10
_NOT_BOUND = (MemberPhase.EXPECTED, MemberPhase.GATED, MemberPhase.BINDING)


def reconcile(cluster: Cluster, *, at: datetime) -> None:
    """Queue again what rows say is under way, and take back starts that did not bind in time.

    Job by job: one that cannot be changed is logged, and keeps no other waiting. at: cluster clock.
    """
    jobs = Job.objects.filter(cluster=cluster)
    one_by_one(_late(jobs, state=JobState.STARTING), lambda job: _take_back(job, at=at))
    _try_again(cluster)
    one_by_one(
        out_of_time(jobs, at=at),
        lambda job: stop(job, towards=JobState.TIMED_OUT, at=at, reason="its longest run is over"),
    )
    one_by_one(to_warn(jobs, at=at), lambda job: warn(job, at=at))
    for job in jobs.filter(state=JobState.RUNNING, is_end_untold=True):
        send_again("scheduling.limit_job", job_id=job.pk, attempt=job.attempt)
    one_by_one(
        _late(jobs, state=JobState.RUNNING),
        lambda job: take_back_late(job, _unbound(job), at=at),
    )
    for job in _changing_size(jobs):
        send_again("scheduling.scale_job", job_id=job.pk, attempt=job.attempt)
    for job in jobs.filter(state=JobState.STARTING):
        send_again("scheduling.bind_job", job_id=job.pk, attempt=job.attempt)
    for job in _with_lost_members(jobs) | _called_over(jobs):
        send_again("scheduling.look_after_job", job_id=job.pk)
    for job in jobs.filter(state=JobState.STOPPING):
        send_again("scheduling.stop_job", job_id=job.pk)
    active = Placement.objects.active().filter(job=OuterRef("pk"))
    for job in jobs.filter(Exists(active), state__in=sorted(FINAL)):
        send_again("scheduling.stop_job", job_id=job.pk)


def _take_back(job: Job, *, at: datetime) -> None:
    """Give up a start; one that gates of others kept back is not tried again for a while."""
    gates = sorted({gate for member in _unbound(job) for gate in member.foreign_gates})
    if not gates:
        waits = after_failed_start(job, at=at)
        stop(job, towards=JobState.QUEUED, at=at, reason="not bound in time", **waits)
        return
    again_at = Now() + timedelta(seconds=settings.BIND_TIMEOUT_SECONDS) * _GATE_PATIENCE
    stop(
        job,
        towards=JobState.QUEUED,
        at=at,
        reason="kept back by a gate that is not ours",
        foreign_gates=gates,
        gates_until=again_at,
    )


@transaction.atomic
def _try_again(cluster: Cluster) -> None:
    """What others' gates kept back is planned again: they may have thought better of it."""
    kept = Job.objects.filter(cluster=cluster, state=JobState.QUEUED, gates_until__lt=Now())
    if kept.update(foreign_gates=[], gates_until=None, version=F("version") + 1):
        ask_for_cycle(cluster.pk)


def _late(jobs: JobQuerySet, *, state: JobState) -> JobQuerySet:
    """Jobs in `state` whose members should all be on their nodes by now and are not."""
    return jobs.filter(Exists(_members(phase__in=_NOT_BOUND)), state=state, release_by__lt=Now())


def _changing_size(jobs: JobQuerySet) -> JobQuerySet:
    """Running jobs with members that are still to come, or to go."""
    coming = Exists(_members(phase__in=_NOT_BOUND))
    leaving = Exists(_members(leaving=True).exclude(phase__in=ENDED_PHASES))
    return jobs.filter(coming | leaving, state=JobState.RUNNING)


def _members(*, leaving: bool = False, **what: object) -> QuerySet[Member]:
    """Members of a job's present attempt, for a subquery about it."""
    own = Member.objects.filter(job=OuterRef("pk"), attempt=OuterRef("attempt"))
    return own.filter(is_leaving=leaving, **what)


def _unbound(job: Job) -> QuerySet[Member]:
    return job.members.filter(attempt=job.attempt, is_leaving=False, phase__in=_NOT_BOUND)


def _with_lost_members(jobs: JobQuerySet) -> JobQuerySet:
    """Jobs under way of which a member ended without success, and nobody said why."""
    lost = _members(phase__in=(MemberPhase.GONE, MemberPhase.FAILED))
    return jobs.filter(Exists(lost)).displaceable()


def _called_over(jobs: JobQuerySet) -> JobQuerySet:
    """Jobs under way of which the cluster says that a group has ended, and members have not."""
    own = Member.objects.filter(group=OuterRef("pk"), attempt=OuterRef("outcome_attempt"))
    live = own.filter(is_leaving=False).exclude(phase__in=ENDED_PHASES)
    over = JobGroup.objects.filter(Exists(live), job=OuterRef("pk")).exclude(outcome="")
    return jobs.filter(Exists(over.filter(outcome_attempt=OuterRef("attempt")))).displaceable()
