"""The longest run of a job: warned of before it is over, and told to the cluster as a second wall.

At its end `reconciling` stops the job: its members get SIGTERM, then have their grace to save.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Greatest, Least

from portal.core import audit
from portal.core.queueing import send_on_commit
from scheduling.models import Job, JobEvent, Member
from scheduling.querysets import JobQuerySet
from scheduling.services.gangs import grace_of
from scheduling.states import JobState

NET = timedelta(minutes=10)  # the cluster ends a gang so long after its grace, should nobody have
LATE = timedelta(minutes=30)  # a start so long after the decision uses much of the cluster's wall

# How long before its end a job is warned: a tenth of its run, within these bounds.
LONGEST_WARNING, SHORTEST_WARNING = 900, 120


def out_of_time(jobs: JobQuerySet, *, at: datetime) -> JobQuerySet:
    """Running jobs that have run for their walltime. at: cluster clock."""
    return _started_by(jobs, at, F("walltime_seconds"))


def to_warn(jobs: JobQuerySet, *, at: datetime) -> JobQuerySet:
    """Running jobs whose end is near, and who have not been told. at: cluster clock."""
    run = F("walltime_seconds")
    ahead = Least(Greatest(run / 10, SHORTEST_WARNING), LONGEST_WARNING, run / 2)
    return _started_by(jobs, at, run - ahead).filter(warned_at=None)


def _started_by(jobs: JobQuerySet, at: datetime, seconds: Combinable) -> JobQuerySet:
    """Running jobs that started at least so many seconds before `at`."""
    span = seconds * Value(timedelta(seconds=1), output_field=DurationField())
    latest_start = ExpressionWrapper(Value(at) - span, output_field=DateTimeField())
    return jobs.filter(state=JobState.RUNNING, started_at__lte=latest_start)


@transaction.atomic
def warn(job: Job, *, at: datetime) -> bool:
    """Say that the job's end is near: to its people, and to its pods. at: cluster clock.

    False when it was extended, or left its state, meanwhile.
    """
    same = Job.objects.filter(pk=job.pk, attempt=job.attempt, state=JobState.RUNNING)
    unwarned = same.filter(walltime_seconds=job.walltime_seconds, warned_at=None)
    won = unwarned.update(warned_at=at, is_end_untold=True, version=F("version") + 1)
    if won:
        note(job, "its longest run is nearly over", at=at)
        ends_at = job.limit_end_at
        after = {"ends_at": ends_at.isoformat() if ends_at else None}
        audit.record("warn_job", job, by=None, after=after)
        send_on_commit("scheduling.limit_job", job_id=job.pk, attempt=job.attempt)
    return bool(won)


def note(job: Job, reason: str, *, at: datetime, **who: Any) -> None:
    """An event of a job that runs on."""
    JobEvent.objects.create(
        job=job, from_state=job.state, to_state=job.state, reason=reason, at=at, **who
    )


def begin_limit(job: Job, members: Sequence[Member], *, started_at: datetime) -> dict[str, Any]:
    """The columns of a job that starts to run which say what is told of its end.

    The cluster's own wall was put up before the images were fetched: where that took long, it is
    moved.
    """
    decided_at = min((member.placement.bound_at for member in members), default=started_at)
    is_late = job.walltime_seconds is not None and started_at - decided_at > LATE
    if is_late:
        send_on_commit("scheduling.limit_job", job_id=job.pk, attempt=job.attempt)
    return {"warned_at": None, "is_end_untold": is_late}


def wall_at(job: Job, ends_at: datetime) -> datetime:
    """When the cluster ends the job by itself."""
    return ends_at + timedelta(seconds=grace_of(job)) + NET
