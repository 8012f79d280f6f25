"""What is kept free when, maintenance and blocks of a cluster, and who is there."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from portal.core.models import AuditEvent
from scheduling.models import CapacityBlock, Job, Placement
from tenants.models import Tenant, User
from topology.models import Cluster, MaintenanceWindow, Node

WINDOW, BLOCK = "window", "block"
KINDS = ("maintenancewindow", "capacityblock")
MOST_CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """kind: window or block. name: a block's; note: a window's. gpus: that are kept, of all nodes.

    staying: running jobs there that may not have ended when it begins; of a block, those that are
    not of its tenant.
    """

    kind: str
    pk: int
    name: str
    note: str
    tenant: str
    from_at: datetime
    until_at: datetime
    nodes: tuple[str, ...]
    gpus: int
    staying: int


@dataclass(frozen=True, slots=True)
class Staying:
    """A running job that may not have ended. ends_at: at the latest; None without a limit."""

    job: int
    tenant: int
    nodes: frozenset[int]
    ends_at: datetime | None

    def stays(self, at: datetime) -> bool:
        return self.ends_at is None or self.ends_at > at


def upcoming_in(cluster: Cluster, *, at: datetime) -> list[Upcoming]:
    """What is not over at `at` (cluster clock), by begin. Five queries."""
    staying = _running(cluster.nodes.all(), at=at)
    windows = MaintenanceWindow.objects.filter(cluster=cluster, until_at__gt=at)
    blocks = CapacityBlock.objects.filter(cluster=cluster, until_at__gt=at)
    rows = [_of_window(window, staying) for window in windows.prefetch_related("nodes")]
    parts = blocks.select_related("tenant").prefetch_related("parts__node")
    rows += [_of_block(block, staying) for block in parts]
    return sorted(rows, key=lambda row: (row.from_at, row.until_at, row.kind, row.pk))


def _of_window(window: MaintenanceWindow, staying: list[Staying]) -> Upcoming:
    nodes = list(window.nodes.all())
    return Upcoming(
        kind=WINDOW,
        pk=window.pk,
        name="",
        note=window.note,
        tenant="",
        from_at=window.from_at,
        until_at=window.until_at,
        nodes=tuple(sorted(node.name for node in nodes)),
        gpus=sum(node.gpu_count for node in nodes),
        staying=_count(staying, {node.pk for node in nodes}, window.from_at),
    )


def _of_block(block: CapacityBlock, staying: list[Staying]) -> Upcoming:
    parts = list(block.parts.all())
    others = [each for each in staying if each.tenant != block.tenant_id]
    return Upcoming(
        kind=BLOCK,
        pk=block.pk,
        name=block.name,
        note="",
        tenant=block.tenant.slug if block.tenant else "",
        from_at=block.from_at,
        until_at=block.until_at,
        nodes=tuple(sorted(part.node.name for part in parts)),
        gpus=sum(part.gpus for part in parts),
        staying=_count(others, {part.node_id for part in parts}, block.from_at),
    )


def _count(staying: list[Staying], nodes: set[int], at: datetime) -> int:
    return sum(each.stays(at) and not nodes.isdisjoint(each.nodes) for each in staying)


def _running(nodes: Collection[Node] | QuerySet[Node], *, at: datetime) -> list[Staying]:
    """What holds places on these nodes. One query."""
    places = Placement.objects.filter(node__in=nodes, released_at=None)
    on: dict[int, set[int]] = defaultdict(set)
    facts: dict[int, tuple[int, datetime | None]] = {}
    columns = ("job_id", "node_id", "job__tenant", "job__started_at", "job__walltime_seconds")
    for job, node, tenant, started_at, walltime in places.values_list(*columns):
        on[job].add(node)
        ends_at = (started_at or at) + timedelta(seconds=walltime) if walltime else None
        facts[job] = tenant, ends_at
    return [
        Staying(job, facts[job][0], frozenset(nodes), facts[job][1])
        for job, nodes in sorted(on.items())
    ]


@dataclass(frozen=True, slots=True)
class StayingJob:
    job: Job
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class Touched:
    """Jobs on nodes that may not have ended: those that the reader sees, and how many others."""

    jobs: tuple[StayingJob, ...]
    others: int


def touched_by(
    nodes: Collection[Node],
    from_at: datetime,
    *,
    at: datetime,
    reader: User,
    but_of: Tenant | None = None,
) -> Touched:
    """What runs on `nodes` and may still do so at `from_at`, of other tenants than `but_of`.

    at: cluster clock. Two queries.
    """
    own = but_of.pk if but_of else None
    staying = [each for each in _running(nodes, at=at) if each.stays(from_at)]
    staying = [each for each in staying if each.tenant != own]
    ends = {each.job: each.ends_at for each in staying}
    jobs = Job.objects.visible_to(reader).filter(pk__in=ends).select_related("tenant")
    seen = tuple(StayingJob(job, ends[job.pk]) for job in jobs.order_by("name", "pk"))
    return Touched(seen, len(ends) - len(seen))


def changes_of(cluster: Cluster) -> list[AuditEvent]:
    """Who last planned, changed or cancelled what here, newest first. One query."""
    here = Q(after__cluster=cluster.slug) | Q(before__cluster=cluster.slug)
    events = AuditEvent.objects.filter(here, object_kind__in=KINDS).select_related("actor")
    return list(events.order_by("-at", "-pk")[:MOST_CHANGES])
