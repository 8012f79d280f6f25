"""How grants become the quota that the scheduler reads.

A Quota row is what an operator has set for good, and on top of it what grants in force add. The
added parts are computed anew from the grants whenever one of them starts, changes or ends, so
doing it twice changes nothing. What a tenant lends stays an operator's word alone.

A grant in force adds its guaranteed GPUs to `nominal` and what it may borrow to `borrowing_limit`.
In grace it guarantees nothing any more; its GPUs may still be borrowed while others leave them
idle. Jobs that run are never stopped for it: above the quota they merely can be reclaimed.
"""

from django.db.models import Q, Sum

from portal.core import audit
from tenants.models import Quota, QuotaGrant, Tenant, User
from tenants.services.tenancy import ask_for_tenancy
from tenants.states import GUARANTEED, RequestState
from topology.models import ResourceFlavor
from topology.services.cycle_request import ask_for_cycle


def lock_flavors(*flavor_ids: int) -> dict[int, ResourceFlavor]:
    """Flavors by key, held until the commit, in the order of their keys.

    Whoever promises GPUs of a flavor looks after the last one. Requests are locked before flavors.
    """
    rows = ResourceFlavor.objects.select_for_update(no_key=True, of=("self",))
    rows = rows.select_related("cluster").filter(pk__in=flavor_ids).order_by("pk")
    return {flavor.pk: flavor for flavor in rows}


def lock_flavor(flavor_id: int) -> ResourceFlavor:
    """As `lock_flavors`, of one."""
    return lock_flavors(flavor_id)[flavor_id]


def derive_quota(tenant: Tenant, flavor: ResourceFlavor, *, by: User | None, reason: str) -> None:
    """Bring the tenant's Quota row to what its grants say; `flavor` is locked by the caller.

    A row that the first grant made goes with the last. Asks for a cycle when numbers change.
    """
    granted, borrowing = _granted(tenant, flavor)
    quota = Quota.objects.select_for_update().filter(tenant=tenant, flavor=flavor).first()
    if quota is None:
        if not granted and not borrowing:
            return
        quota = Quota(tenant=tenant, flavor=flavor, nominal=0, borrowing_limit=0, is_of_grants=True)
    before = amounts(quota) if quota.pk else {}
    _add(quota, granted, borrowing)
    after = amounts(quota)
    if after == before:
        return
    if quota.is_of_grants and not granted and not borrowing:
        audit.record("derive_quota", quota, by=by, before=before, reason=reason)
        quota.delete()
    else:
        quota.save()
        audit.record("derive_quota", quota, by=by, before=before, after=after, reason=reason)
    ask_for_cycle(flavor.cluster_id)
    ask_for_tenancy(tenant.pk, flavor.cluster_id)


def amounts(quota: Quota) -> dict[str, int | str | None]:
    """What the audit keeps of a quota."""
    return {
        "flavor": quota.flavor.name,
        "nominal": quota.nominal,
        "borrowing_limit": quota.borrowing_limit,
        "lending_limit": quota.lending_limit,
        "granted": quota.granted,
        "granted_borrowing": quota.granted_borrowing,
    }


def _granted(tenant: Tenant, flavor: ResourceFlavor) -> tuple[int, int]:
    """GPUs that the tenant's grants in force guarantee, and let it borrow."""
    sums = QuotaGrant.objects.filter(request__tenant=tenant, flavor=flavor).aggregate(
        guaranteed=Sum("gpus", filter=Q(request__state__in=GUARANTEED), default=0),
        borrowing=Sum("borrowing_gpus", filter=Q(request__state__in=GUARANTEED), default=0),
        leaving=Sum("gpus", filter=Q(request__state=RequestState.GRACE), default=0),
        leaving_borrowing=Sum(
            "borrowing_gpus", filter=Q(request__state=RequestState.GRACE), default=0
        ),
    )
    borrowing = sums["borrowing"] + sums["leaving"] + sums["leaving_borrowing"]
    return sums["guaranteed"], borrowing


def _add(quota: Quota, granted: int, borrowing: int) -> None:
    """Exchange the parts that came from grants. No limit stays no limit."""
    quota.nominal += granted - quota.granted
    if quota.borrowing_limit is not None:
        quota.borrowing_limit += borrowing - quota.granted_borrowing
    if quota.lending_limit is not None:
        quota.lending_limit = min(quota.lending_limit, quota.nominal)
    quota.granted, quota.granted_borrowing = granted, borrowing
