"""What a lost message left behind: rows that say one thing while nobody works on it."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import (
    DateTimeField,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Value,
)
from django.db.models.functions import Now

from portal.core.queueing import send_again
from scheduling.models import Job, Member, Placement
from scheduling.querysets import JobQuerySet
from scheduling.services.lifecycle import stop
from scheduling.states import FINAL, JobState, MemberPhase
from topology.models import Cluster

_NOT_BOUND = (MemberPhase.EXPECTED, MemberPhase.GATED, MemberPhase.BINDING)


@transaction.atomic
def reconcile(cluster: Cluster, *, at: datetime) -> None:
    """Queue again what rows say is under way, and take back starts that did not bind in time.

    at: cluster clock.
    """
    jobs = Job.objects.filter(cluster=cluster)
    for job in _late(jobs):
        stop(job, towards=JobState.QUEUED, at=at, reason="not bound in time")
    for job in _out_of_time(jobs, at=at):
        stop(job, towards=JobState.TIMED_OUT, at=at, reason="its longest run is over")
    for job in jobs.filter(state=JobState.STARTING):
        send_again("scheduling.bind_job", job_id=job.pk, attempt=job.attempt)
    for job in _with_lost_members(jobs):
        send_again("scheduling.look_after_job", job_id=job.pk)
    for job in jobs.filter(state=JobState.STOPPING):
        send_again("scheduling.stop_job", job_id=job.pk)
    active = Placement.objects.active().filter(job=OuterRef("pk"))
    for job in jobs.filter(Exists(active), state__in=sorted(FINAL)):
        send_again("scheduling.stop_job", job_id=job.pk)


def _late(jobs: JobQuerySet) -> JobQuerySet:
    """Starting jobs whose members should all be on their nodes by now and are not."""
    unbound = Member.objects.filter(
        job=OuterRef("pk"), attempt=OuterRef("attempt"), phase__in=_NOT_BOUND
    )
    return jobs.filter(Exists(unbound), state=JobState.STARTING, release_by__lt=Now())


def _out_of_time(jobs: JobQuerySet, *, at: datetime) -> JobQuerySet:
    """Running jobs that have run for their walltime. at: cluster clock."""
    seconds = F("walltime_seconds") * Value(timedelta(seconds=1), output_field=DurationField())
    latest_start = ExpressionWrapper(Value(at) - seconds, output_field=DateTimeField())
    return jobs.filter(state=JobState.RUNNING, started_at__lte=latest_start)


def _with_lost_members(jobs: JobQuerySet) -> JobQuerySet:
    """Jobs under way of which a member ended without success, and nobody said why."""
    lost = Member.objects.filter(
        phase__in=(MemberPhase.GONE, MemberPhase.FAILED),
        job=OuterRef("pk"),
        attempt=OuterRef("attempt"),
    )
    return jobs.filter(Exists(lost)).displaceable()
