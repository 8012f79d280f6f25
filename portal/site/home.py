"""The first page, by role: what is true, what needs the reader, then the details."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, IntegerField, Value, When, Window
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.db import consistent_read
from portal.core.web import polled, signed_in, tag_of
from scheduling.models import Job
from scheduling.querysets import JobQuerySet
from scheduling.reports.capacity import FlavorCapacity, capacity_of
from scheduling.reports.jobs import count_by_state, job_rows, with_rows
from scheduling.reports.layouts import drift_in
from scheduling.reports.queue import Queue, jobs_at, queue_of, queue_rows
from scheduling.reports.quota_use import TenantUse, tenants_in_use
from scheduling.reports.vitals import is_stalled
from scheduling.states import HOLDING, JobState
from scheduling.web.map import KIND_LABELS, NODE_STATES, looks, map_of
from tenants.models import QuotaRequest, Role, Tenant
from topology.web.clusters import chosen_cluster

LOOK_EVERY = 15.0  # seconds
SHOWN = 8
MINUTE = 60
TEMPLATES = {
    "operator": ("site/home_operator.html", "site/partials/_home_operator.html"),
    "member": ("site/home.html", "site/partials/_home.html"),
}


@require_safe
@signed_in
def home(request: HttpRequest) -> HttpResponse:
    """What the reader's role needs to see first."""
    wall = timezone.now()
    operator = request.user.is_operator
    with consistent_read():  # or figures, map and queue would be those of three moments
        shown = _for_operator(request, wall) if operator else _for_member(request, wall)
    return polled(
        request,
        TEMPLATES["operator" if operator else "member"],
        lambda: shown,
        tag=tag_of(request, _looks(shown), int(wall.timestamp()) // MINUTE),
        every=LOOK_EVERY,
    )


def _for_member(request: HttpRequest, wall: datetime) -> dict[str, Any]:
    tenants = list(Tenant.objects.visible_to(request.user).active().order_by("slug"))
    roles = dict(request.user.memberships.values_list("tenant_id", "role"))
    visible = Job.objects.visible_to(request.user)
    may_submit = any(role >= Role.RESEARCHER for role in roles.values())
    mine = visible.filter(owner=request.user) if may_submit else visible
    led = [tenant for tenant in tenants if roles.get(tenant.pk) == Role.LEAD]
    counts = count_by_state(mine)
    return {
        "counts": counts,
        "holding": sum(counts[state] for state in HOLDING),
        "waiting": counts[JobState.QUEUED],
        "rows": job_rows(with_rows(_lively_first(mine))[:SHOWN], wall=wall),
        "uses": tenants_in_use(tenants),
        "led": led,
        "requests": _needing(led) if led else [],
        "may_submit": may_submit,
    }


def _needing(led: list[Tenant]) -> list[QuotaRequest]:
    """Requests of the tenants that the reader leads with which there is something to do."""
    rows = QuotaRequest.objects.filter(tenant__in=led).needing_tenants()
    return list(rows.select_related("tenant").order_by("pk")[:SHOWN])


def _for_operator(request: HttpRequest, wall: datetime) -> dict[str, Any]:
    cluster = chosen_cluster(request)
    capacity = capacity_of(cluster) if cluster else ()
    waiting = queue_of(cluster) if cluster else Queue(())
    places = waiting.positions(owner=None)[:SHOWN]
    jobs = jobs_at(places)
    uses = tenants_in_use(Tenant.objects.active().order_by("slug"))
    asked = _longest_asked()
    totals = _totals(capacity)
    head = queue_rows(places, jobs, reader=request.user, wall=wall)
    return {
        "capacity": capacity,
        "totals": totals,
        "waiting": len(waiting.places),
        "approvals": asked.total if asked else 0,
        "asked": asked,
        "head": head,
        "stuck": next((line for line in head if line.row), None),
        "drift": drift_in(cluster) if cluster else [],
        "uses": _busiest(uses),
        "tenant_count": len(uses),
        "holding": Job.objects.holding().filter(cluster=cluster).count(),
        "map": map_of(cluster, reader=request.user, gpus=totals["installed"]),
        "kinds": KIND_LABELS,
        "node_states": NODE_STATES,
        "planned_at": cluster.planned_at if cluster else None,
        "is_stalled": cluster is not None and is_stalled(cluster, wall=wall),
    }


def _longest_asked() -> QuotaRequest | None:
    """The request that has waited longest for an operator; `total` is how many wait."""
    rows = QuotaRequest.objects.for_operators().select_related("tenant", "flavor")
    rows = rows.annotate(total=Window(Count("pk")))
    return rows.order_by("submitted_at", "pk").first()


def _busiest(uses: Iterable[TenantUse]) -> tuple[TenantUse, ...]:
    """The first few by GPUs in use, then by jobs that wait; by name among equals."""
    return tuple(sorted(uses, key=lambda use: (-use.used, -use.waiting, use.tenant.slug))[:SHOWN])


def _totals(capacity: Iterable[FlavorCapacity]) -> dict[str, int]:
    rows = list(capacity)
    return {
        "installed": sum(row.installed for row in rows),
        "serving": sum(row.serving for row in rows),
        "held": sum(row.held for row in rows),
        "free": sum(row.free for row in rows),
        "out": sum(row.installed - row.serving for row in rows),
    }


def _lively_first(jobs: JobQuerySet) -> JobQuerySet:
    """What holds GPUs, then what waits, then what ended; each newest first."""
    rank = Case(
        When(state__in=sorted(HOLDING), then=Value(0)),
        When(state=JobState.QUEUED, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )
    return jobs.order_by(rank, "-submitted_at", "-pk")


def _looks(shown: dict[str, Any]) -> list[object]:
    """What the page shows, small enough to be hashed."""
    rows = [row.job for row in shown.get("rows", ())]
    rows += [line.row.job for line in shown.get("head", ()) if line.row]
    uses: tuple[TenantUse, ...] = shown["uses"]
    return [
        [(job.pk, job.version) for job in rows],
        [(use.tenant.slug, use.quotas, use.running, use.waiting) for use in uses],
        shown.get("capacity"),
        shown["waiting"],
        shown["holding"],
        shown.get("approvals"),
        [(row.node.pk, row.seen) for row in shown.get("drift", ())],
        [(request.pk, request.version) for request in shown.get("requests", ())],
        looks(shown["map"]) if "map" in shown else None,
    ]
