from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import Quota, Tenant, User
from topology.models import ResourceFlavor
from topology.services.cycle_request import ask_for_cycle


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """GPUs of one flavor. A limit of None is no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@transaction.atomic
def set_quota(request: QuotaRequest, *, tenant: Tenant, flavor: ResourceFlavor, by: User) -> Quota:
    """What `tenant` may use of `flavor` from now on; jobs that run stay.

    Raises NotAllowed for all but operators, Refused for numbers that contradict each other.
    """
    require_operator(by)
    _check(request)
    quota = Quota.objects.select_for_update().filter(tenant=tenant, flavor=flavor).first()
    before = _amounts(quota) if quota is not None else {}
    quota = quota or Quota(tenant=tenant, flavor=flavor)
    quota.nominal = request.nominal
    quota.borrowing_limit = request.borrowing_limit
    quota.lending_limit = request.lending_limit
    quota.save()
    if _amounts(quota) != before:
        audit.record("set_quota", quota, by=by, before=before, after=_amounts(quota))
        ask_for_cycle(flavor.cluster_id)
    return quota


def _check(request: QuotaRequest) -> None:
    for field in ("nominal", "borrowing_limit", "lending_limit"):
        if (getattr(request, field) or 0) < 0:
            raise Refused(_("A number of GPUs cannot be negative."), field=field)
    if request.lending_limit is not None and request.lending_limit > request.nominal:
        raise Refused(_("A tenant can lend no more than it is guaranteed."), field="lending_limit")


def _amounts(quota: Quota) -> dict[str, int | str | None]:
    return {
        "flavor": quota.flavor.name,
        "nominal": quota.nominal,
        "borrowing_limit": quota.borrowing_limit,
        "lending_limit": quota.lending_limit,
    }
