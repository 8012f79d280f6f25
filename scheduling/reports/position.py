from dataclasses import dataclass

from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from scheduling.models import Job, JobGroup
from scheduling.states import JobState


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the queue. rank: 1 is next. gpus_ahead: what those in front ask for at least."""

    rank: int
    of: int
    gpus_ahead: int


def position_of(job: Job) -> Position | None:
    """Where a waiting job stands in its cluster's queue, whoever is in front; else None."""
    if job.state != JobState.QUEUED:
        return None
    waiting = Job.objects.waiting().filter(cluster=job.cluster_id)
    earlier = Q(submitted_at__lt=job.submitted_at) | Q(submitted_at=job.submitted_at, pk__lt=job.pk)
    ahead = waiting.filter(Q(priority__gt=job.priority) | Q(earlier, priority=job.priority))
    gpus = JobGroup.objects.filter(job__in=ahead).aggregate(
        sum=Coalesce(Sum(F("min_member") * F("gpus_per_member")), 0)
    )
    return Position(rank=ahead.count() + 1, of=waiting.count(), gpus_ahead=gpus["sum"])
