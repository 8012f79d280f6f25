"""What a lost message left behind: rows that say one thing while nobody works on it."""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from portal.core.queueing import send_on_commit
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
    for job in jobs.filter(state=JobState.STARTING):
        send_on_commit("scheduling.bind_job", job_id=job.pk, attempt=job.attempt)
    for job in _with_lost_members(jobs):
        send_on_commit("scheduling.look_after_job", job_id=job.pk)
    for job in jobs.filter(state=JobState.STOPPING):
        send_on_commit("scheduling.stop_job", job_id=job.pk)
    active = Placement.objects.active().filter(job=OuterRef("pk"))
    for job in jobs.filter(Exists(active), state__in=sorted(FINAL)):
        send_on_commit("scheduling.stop_job", job_id=job.pk)


def _late(jobs: JobQuerySet) -> JobQuerySet:
    """Starting jobs whose members should all be on their nodes by now and are not."""
    unbound = Member.objects.filter(
        job=OuterRef("pk"), attempt=OuterRef("attempt"), phase__in=_NOT_BOUND
    )
    return jobs.filter(Exists(unbound), state=JobState.STARTING, release_by__lt=Now())


def _with_lost_members(jobs: JobQuerySet) -> JobQuerySet:
    """Running jobs of which a member ended without a result."""
    lost = Member.objects.filter(
        Q(phase=MemberPhase.GONE) | Q(phase=MemberPhase.FAILED, exit_code=None),
        job=OuterRef("pk"),
        attempt=OuterRef("attempt"),
    )
    return jobs.filter(Exists(lost)).displaceable()
