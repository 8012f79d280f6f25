"""GPU time by tenant, two ways: run (container start to end) and held (bound to released)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from scheduling.models import Member, Placement, devices_per_member
from tenants.models import Tenant, User


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """GPU-seconds of one tenant. held - run is what starting, stopping and waiting cost."""

    tenant: str
    run_gpu_seconds: int
    held_gpu_seconds: int


def usage_by_tenant(user: User, *, since: datetime, until: datetime) -> list[TenantUsage]:
    """GPU time inside [since, until), most held first, for the tenants that `user` may see.

    since, until: cluster clock. What still runs counts up to `until`. Two queries.
    """
    # Some ends nobody saw: whoever lost its place ran no longer than it held it.
    members = Member.objects.visible_to(user).annotate(
        over_at=Coalesce("ended_at", "placement__released_at")
    )
    run = _seconds(members, ("started_at", "over_at"), since=since, until=until)
    held = _seconds(
        Placement.objects.visible_to(user), ("bound_at", "released_at"), since=since, until=until
    )
    rows = [TenantUsage(tenant, run.get(tenant, 0), held.get(tenant, 0)) for tenant in run | held]
    return sorted(rows, key=lambda row: (-row.held_gpu_seconds, row.tenant))


def held_by_flavor(tenant: Tenant, *, since: datetime, until: datetime) -> dict[str, int]:
    """GPU-seconds that `tenant` held inside [since, until), by the flavor's name. One query.

    since, until: cluster clock. Standby jobs are not charged, and not counted.
    """
    placements = Placement.objects.filter(job__tenant=tenant, job__is_standby=False)
    ends = ("bound_at", "released_at")
    return _seconds(placements, ends, since=since, until=until, by="node__flavor__name")


def _seconds(
    rows: QuerySet[Any],
    ends: tuple[str, str],
    *,
    since: datetime,
    until: datetime,
    by: str = "job__tenant__slug",
) -> dict[str, int]:
    """GPU-seconds, `by` what, that lie between two columns of `rows` inside [since, until)."""
    begin, end = ends
    count = F("member_count") if rows.model is Placement else Value(1)
    still = Coalesce(F(end), Value(until))
    inside = ExpressionWrapper(
        Least(still, Value(until)) - Greatest(F(begin), Value(since)), output_field=DurationField()
    )
    gpu_time = ExpressionWrapper(
        inside * count * devices_per_member("group__"), output_field=DurationField()
    )
    sums = (
        rows.filter(Q(**{f"{begin}__lt": until}))
        .filter(Q(**{f"{end}__gt": since}) | Q(**{f"{end}__isnull": True}))
        .values(by)
        .annotate(total=Sum(gpu_time))
    )
    return {row[by]: round(row["total"].total_seconds()) for row in sums}
