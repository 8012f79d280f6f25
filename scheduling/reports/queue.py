"""The queue of a cluster in the scheduler's own order, told to each reader as far as it is theirs.

Everybody sees that somebody waits in front, how large that is and of which tenant; names, reasons
and links are for those who may see the job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from portal.core.clock import cluster_time
from scheduling.models import Job
from scheduling.reports.jobs import JobRow, job_row, with_rows
from scheduling.reports.reasons import reason_text
from scheduling.states import JobState
from tenants.models import Tenant, User
from topology.models import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """position: from 1. row, reason: none where the job is another tenant's."""

    position: int
    tenant: str
    tenant_name: str
    gpus: int
    shape: str
    is_mine: bool
    row: JobRow | None
    reason: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Keys and owners of all waiting jobs of a cluster, first to start first."""

    places: tuple[tuple[int, int], ...]

    def positions(self, *, owner: User | None) -> list[tuple[int, int]]:
        """(position from 1, key) of each job, or of those of `owner`."""
        return [
            (position, key)
            for position, (key, owner_id) in enumerate(self.places, start=1)
            if owner is None or owner_id == owner.pk
        ]


def queue_of(cluster: Cluster) -> Queue:
    """The whole queue of `cluster`. One query that reads its index only."""
    waiting = Job.objects.waiting().filter(cluster=cluster).in_queue_order()
    return Queue(tuple(waiting.values_list("pk", "owner_id")))


def position_of(job: Job) -> int | None:
    """The place of `job` in its cluster's queue, from 1; None when it does not wait. One query."""
    if job.state != JobState.QUEUED:
        return None
    as_urgent = Q(priority=job.priority)
    earlier = Q(submitted_at=job.submitted_at, pk__lt=job.pk) | Q(submitted_at__lt=job.submitted_at)
    ahead = Q(priority__gt=job.priority) | (as_urgent & earlier)
    return 1 + Job.objects.waiting().filter(ahead, cluster=job.cluster).count()


def jobs_at(places: Sequence[tuple[int, int]]) -> dict[int, Job]:
    """The jobs at those places by key, with what a line needs. Three queries."""
    return with_rows(Job.objects.all()).in_bulk([key for _position, key in places])


def queue_rows(
    places: Sequence[tuple[int, int]], jobs: dict[int, Job], *, reader: User, wall: datetime
) -> list[QueueRow]:
    """Lines for the jobs that still exist. One query. wall: the wall clock."""
    visible = set(Tenant.objects.visible_to(reader).values_list("pk", flat=True))
    return [
        _row(position, jobs[key], reader=reader, visible=visible, wall=wall)
        for position, key in places
        if key in jobs
    ]


def _row(position: int, job: Job, *, reader: User, visible: set[int], wall: datetime) -> QueueRow:
    row = job_row(job, at=cluster_time(job.cluster, wall=wall))
    is_visible = job.tenant_id in visible
    return QueueRow(
        position=position,
        tenant=job.tenant.slug,
        tenant_name=job.tenant.name,
        gpus=row.gpus,
        shape=row.shape,
        is_mine=job.owner_id == reader.pk,
        row=row if is_visible else None,
        reason=reason_text(job) if is_visible else "",
    )
