"""What a tenant has made of its quota, and how long the hours of a grant will last."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.utils import timezone

from portal.core.clock import cluster_time
from scheduling.reports.quota_use import TenantUse, tenants_in_use
from scheduling.reports.usage import held_by_flavor
from tenants.models import QuotaGrant, Tenant
from tenants.reports.decisions import RequestCounts, counts_of
from topology.models import Cluster

LOOK_BACK = timedelta(days=90)
HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFlavor:
    """GPU-seconds held of one flavor, and how many GPUs that is on average."""

    flavor: str
    gpu_seconds: int
    mean_gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRecord:
    """A tenant as it stands now, and its last 90 days by the cluster's clock."""

    use: TenantUse
    held: tuple[HeldFlavor, ...]
    requests: RequestCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """What is left of the GPU-hours of a grant.

    ends_on: the day on which they end at the pace so far; None where nothing was used yet.
    """

    used_hours: float
    planned_hours: int
    ends_on: date | None
    days_early: int  # negative where hours will be left over

    @property
    def left_hours(self) -> float:
        return max(0.0, self.planned_hours - self.used_hours)


def record_of(tenant: Tenant, cluster: Cluster, *, wall: datetime) -> TenantRecord:
    """Five queries. wall: the wall clock."""
    (use,) = tenants_in_use([tenant])
    until = cluster_time(cluster, wall=wall)
    held = held_by_flavor(tenant, since=until - LOOK_BACK, until=until)
    rows = (
        HeldFlavor(
            flavor=flavor, gpu_seconds=seconds, mean_gpus=seconds / LOOK_BACK.total_seconds()
        )
        for flavor, seconds in sorted(held.items())
    )
    return TenantRecord(use=use, held=tuple(rows), requests=counts_of(tenant))


def burn_of(grant: QuotaGrant, *, wall: datetime) -> Burn | None:
    """How the hours of a grant that has begun are being spent; None without hours. One query.

    All that the tenant holds of the flavor since the first day counts, as jobs do not say which
    grant they use. The pace is the mean since that day.
    """
    cluster = grant.request.cluster
    now = cluster_time(cluster, wall=wall)
    began = _midnight(grant.starts_on)
    if not grant.gpu_hours or now <= began:
        return None
    until = min(now, _midnight(grant.ends_on + timedelta(days=1)))
    held = held_by_flavor(grant.request.tenant, since=began, until=until)
    used = held.get(grant.flavor.name, 0) / HOUR
    ends_on = _exhausted_on(grant.gpu_hours, used, began, until)
    return Burn(
        used_hours=used,
        planned_hours=grant.gpu_hours,
        ends_on=ends_on,
        days_early=(grant.ends_on - ends_on).days if ends_on else 0,
    )


def _exhausted_on(planned: int, used: float, began: datetime, until: datetime) -> date | None:
    """When `planned` hours are spent at the pace of `used` from `began` to `until`."""
    if not used:
        return None
    days = planned / used * (until - began) / timedelta(days=1)
    if days > 366 * 10:
        return None
    return timezone.localdate(began + timedelta(days=days), timezone.get_default_timezone())


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=timezone.get_default_timezone())
