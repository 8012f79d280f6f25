"""GPU-hour budgets of a tenant: what is used so far, and how long the rest lasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db.models import F, Q

from portal.core.clock import cluster_time
from portal.core.models import AuditEvent
from scheduling.models import Placement, devices_per_member
from tenants.models import Budget, Tenant

HOUR = 3600
POINTS = 24
FAR = timedelta(days=3660)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """A budget that is not over. at: the cluster's now. set_by: the audit line of its last change.

    course: (instant, GPU-hours used until then) from its begin to now. ends_at: when the hours end
    at the mean pace so far; None where they never do, or it has not begun.
    """

    budget: Budget
    at: datetime
    course: tuple[tuple[datetime, float], ...]
    ends_at: datetime | None
    set_by: AuditEvent | None

    @property
    def has_begun(self) -> bool:
        return self.budget.from_at < self.at

    @property
    def used(self) -> float:
        return self.course[-1][1] if self.course else 0.0

    @property
    def left(self) -> float:
        return max(0.0, self.budget.gpu_hours - self.used)

    @property
    def early_days(self) -> int:
        """Whole days before the budget's end on which its hours end; 0 where they last."""
        if self.ends_at is None or self.ends_at >= self.budget.until_at:
            return 0
        return (self.budget.until_at - self.ends_at).days


def budgets_of(tenant: Tenant, *, wall: datetime) -> list[BudgetUse]:
    """Those that are not over, by begin. Three queries, one without any. wall: the wall clock.

    As the scheduler counts it: devices held by jobs that are not standby, from the begin on.
    """
    rows = Budget.objects.filter(tenant=tenant).select_related("cluster").order_by("from_at", "pk")
    now = {row.cluster_id: cluster_time(row.cluster, wall=wall) for row in rows}
    rows = [row for row in rows if row.until_at > now[row.cluster_id]]
    if not rows:
        return []
    held = _held(tenant, min(row.from_at for row in rows))
    events = AuditEvent.objects.filter(
        object_kind="budget", object_id__in=[str(row.pk) for row in rows]
    )
    last = {event.object_id: event for event in events.select_related("actor").order_by("pk")}
    return [
        _use(row, now[row.cluster_id], held.get(row.cluster_id, []), last.get(str(row.pk)))
        for row in rows
    ]


Stay = tuple[datetime, datetime | None, int]


def _held(tenant: Tenant, since: datetime) -> dict[int, list[Stay]]:
    """By cluster, from when to when how many devices were held."""
    places = Placement.objects.filter(
        Q(released_at=None) | Q(released_at__gt=since),
        job__tenant=tenant,
        job__is_standby=False,
    ).annotate(gpus=F("member_count") * devices_per_member("group__"))
    held: dict[int, list[Stay]] = {}
    for cluster, begin, end, gpus in places.values_list(
        "job__cluster", "bound_at", "released_at", "gpus"
    ):
        held.setdefault(cluster, []).append((begin, end, gpus))
    return held


def _use(budget: Budget, at: datetime, stays: list[Stay], set_by: AuditEvent | None) -> BudgetUse:
    course: tuple[tuple[datetime, float], ...] = ()
    ends_at = None
    if budget.from_at < at:
        course = _course(budget, at, stays)
        used = course[-1][1]
        if used:
            wanted = (at - budget.from_at) * (budget.gpu_hours / used)
            ends_at = budget.from_at + wanted if wanted < FAR else None
    return BudgetUse(budget=budget, at=at, course=course, ends_at=ends_at, set_by=set_by)


def _course(budget: Budget, at: datetime, stays: list[Stay]) -> tuple[tuple[datetime, float], ...]:
    origin = budget.from_at
    span = (at - origin).total_seconds()
    begins = np.array([max(0.0, (begin - origin).total_seconds()) for begin, _, _ in stays])
    ends = np.array([((end or at) - origin).total_seconds() for _, end, _ in stays])
    gpus = np.array([count for _, _, count in stays])
    points = []
    for instant in np.linspace(0, span, POINTS + 1).tolist():
        seconds = np.clip(np.minimum(ends, instant) - begins, 0, None)
        used = float((seconds * gpus).sum()) / HOUR if stays else 0.0
        points.append((origin + timedelta(seconds=instant), used))
    return tuple(points)
