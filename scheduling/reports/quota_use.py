from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Sum

from scheduling.models import Job, PlacementGpu
from scheduling.models.parts import as_gpus
from scheduling.states import HOLDING, JobState
from tenants.models import Quota, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """What a tenant may use and uses of one flavor, in GPUs; slices and shares are parts of one.

    ceiling: guaranteed and what may be borrowed; None where nothing limits it.
    """

    flavor: str
    guaranteed: int
    ceiling: int | None
    used: int | float

    @property
    def free(self) -> int | float:
        """Guaranteed and not used."""
        return max(0, round(self.guaranteed - self.used, 3))

    @property
    def beyond(self) -> int | float:
        """Used above what is guaranteed."""
        return max(0, round(self.used - self.guaranteed, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUse:
    """One tenant at this moment: GPUs by flavor, jobs that hold GPUs, jobs that wait."""

    tenant: Tenant
    quotas: tuple[QuotaUse, ...]
    running: int
    waiting: int

    @property
    def used(self) -> int | float:
        return round(sum(quota.used for quota in self.quotas), 3)

    @property
    def guaranteed(self) -> int:
        return sum(quota.guaranteed for quota in self.quotas)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonUse:
    """What one person of a tenant holds and waits for at this moment."""

    gpus: int | float
    running: int
    waiting: int


def tenants_in_use(tenants: Iterable[Tenant]) -> tuple[TenantUse, ...]:
    """How each of `tenants` stands, in their order. Three queries for any number of them."""
    found = list(tenants)
    used = _used_gpus(found)
    quotas = _quotas(found)
    jobs = _job_counts(found)
    return tuple(
        TenantUse(
            tenant=tenant,
            quotas=_lines(quotas[tenant.pk], used[tenant.pk]),
            running=sum(jobs[tenant.pk, state] for state in HOLDING),
            waiting=jobs[tenant.pk, JobState.QUEUED],
        )
        for tenant in found
    )


def people_in_use(tenant: Tenant) -> dict[int, PersonUse]:
    """What each person with jobs in `tenant` holds, by the user's key. Two queries."""
    parts = dict(
        PlacementGpu.objects.active()
        .filter(placement__job__tenant=tenant)
        .values("placement__job__owner_id")
        .annotate(parts=Sum("parts"))
        .values_list("placement__job__owner_id", "parts")
    )
    live = Job.objects.filter(tenant=tenant, state__in=[JobState.QUEUED, *sorted(HOLDING)])
    rows = live.values_list("owner_id", "state").annotate(n=Count("pk"))
    counts: Counter[tuple[int, bool]] = Counter()
    for owner, state, n in rows:
        counts[owner, state == JobState.QUEUED] += n
    return {
        owner: PersonUse(
            gpus=as_gpus(parts.get(owner, 0)),
            running=counts[owner, False],
            waiting=counts[owner, True],
        )
        for owner in {owner for owner, _waits in counts} | parts.keys()
    }


def _lines(quotas: list[Quota], used: dict[str, int | float]) -> tuple[QuotaUse, ...]:
    by_flavor = {quota.flavor.name: quota for quota in quotas}
    return tuple(
        _line(flavor, by_flavor.get(flavor), used.get(flavor, 0))
        for flavor in sorted(by_flavor.keys() | used.keys())
    )


def _line(flavor: str, quota: Quota | None, used: float) -> QuotaUse:
    if quota is None:
        return QuotaUse(flavor=flavor, guaranteed=0, ceiling=None, used=used)
    limit = quota.borrowing_limit
    ceiling = None if limit is None else quota.nominal + limit
    return QuotaUse(flavor=flavor, guaranteed=quota.nominal, ceiling=ceiling, used=used)


def _quotas(tenants: list[Tenant]) -> dict[int, list[Quota]]:
    found: dict[int, list[Quota]] = defaultdict(list)
    for quota in Quota.objects.filter(tenant__in=tenants).select_related("flavor"):
        found[quota.tenant_id].append(quota)
    return found


def _used_gpus(tenants: list[Tenant]) -> dict[int, dict[str, int | float]]:
    rows = (
        PlacementGpu.objects.active()
        .filter(placement__job__tenant__in=tenants)
        .values_list("placement__job__tenant_id", "gpu__node__flavor__name")
        .annotate(parts=Sum("parts"))
    )
    used: dict[int, dict[str, int | float]] = defaultdict(dict)
    for tenant, flavor, parts in rows:
        used[tenant][flavor or "–"] = as_gpus(parts)
    return used


def _job_counts(tenants: list[Tenant]) -> Counter[tuple[int, str]]:
    live = Job.objects.filter(tenant__in=tenants, state__in=[JobState.QUEUED, *sorted(HOLDING)])
    rows = live.order_by().values_list("tenant_id", "state").annotate(n=Count("pk"))
    return Counter({(tenant, state): n for tenant, state, n in rows})
