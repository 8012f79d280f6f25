"""The queue of a cluster in the scheduler's own order, told to each reader as far as it is theirs.

Everybody sees that somebody waits in front, how large that is and of which tenant; names, reasons
and links are for those who may see the job.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.core.clock import cluster_time
from scheduling.models import Job, QueueOrder
from scheduling.reports.estimates import Start, starts_of
from scheduling.reports.jobs import JobRow, job_row, with_rows
from scheduling.reports.reasons import reason_text
from tenants.access import sees
from tenants.models import User
from topology.models import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """position: from 1. row, reason, start: none where the job is another tenant's."""

    position: int
    tenant: str
    tenant_name: str
    gpus: int
    shape: str
    is_mine: bool
    row: JobRow | None
    reason: str
    start: Start | None


@dataclass(frozen=True, slots=True)
class Queue:
    """Keys and owners of all waiting jobs of a cluster, first to be decided first."""

    places: tuple[tuple[int, int], ...]

    def positions(self, *, owner: User | None) -> list[tuple[int, int]]:
        """(position from 1, key) of each job, or of those of one owner."""
        return [
            (position, key)
            for position, (key, owner_id) in enumerate(self.places, start=1)
            if owner is None or owner_id == owner.pk
        ]


def queue_of(cluster: Cluster) -> Queue:
    """The whole queue of `cluster` as its last cycle went through it. Two queries.

    Jobs that came since stand behind, urgent first, then oldest.
    """
    waiting = Job.objects.waiting().filter(cluster=cluster).in_queue_order()
    order = QueueOrder.objects.filter(cluster=cluster).values_list("jobs", flat=True).first() or ()
    place = {job: index for index, job in enumerate(order)}
    last = len(place)
    found = sorted(waiting.values_list("pk", "owner_id"), key=lambda own: place.get(own[0], last))
    return Queue(tuple(found))


def jobs_at(places: Sequence[tuple[int, int]]) -> dict[int, Job]:
    """The jobs at those places by key, with what a line needs. Three queries."""
    return with_rows(Job.objects.all()).in_bulk([key for _position, key in places])


def versions_at(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(key, version) of each of those jobs, by key. One query."""
    rows = Job.objects.filter(pk__in=[key for _position, key in places]).order_by("pk")
    return list(rows.values_list("pk", "version"))


def queue_rows(
    places: Sequence[tuple[int, int]],
    jobs: dict[int, Job],
    *,
    reader: User,
    wall: datetime,
    with_starts: bool = False,
) -> list[QueueRow]:
    """Lines for the jobs of one cluster that still exist; with likely starts if asked for.

    One query, and two more with starts. wall: the wall clock.
    """
    is_seen = sees(reader)
    there = [(position, jobs[key]) for position, key in places if key in jobs]
    if not there:
        return []
    at = cluster_time(there[0][1].cluster, wall=wall)
    mine = [job for _position, job in there if with_starts and is_seen(job.tenant_id)]
    starts = starts_of(mine, at=at) if mine else {}
    return [
        _row(position, job, reader=reader, start=starts.get(job.pk), at=at, is_seen=is_seen)
        for position, job in there
    ]


def _row(
    position: int,
    job: Job,
    *,
    reader: User,
    start: Start | None,
    at: datetime,
    is_seen: Callable[[int], bool],
) -> QueueRow:
    row = job_row(job, at=at)
    is_visible = is_seen(job.tenant_id)
    return QueueRow(
        position=position,
        tenant=job.tenant.slug,
        tenant_name=job.tenant.name,
        gpus=row.gpus,
        shape=row.shape,
        is_mine=job.owner_id == reader.pk,
        row=row if is_visible else None,
        reason=reason_text(job) if is_visible else "",
        start=start,
    )
