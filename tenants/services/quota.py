from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import Quota, Tenant, User
from tenants.services.grants import amounts, lock_flavor
from tenants.services.tenancy import ask_for_tenancy
from topology.models import ResourceFlavor
from topology.services.cycle_request import ask_for_cycle


@dataclass(frozen=True, slots=True)
class QuotaAmounts:
    """GPUs of one flavor, what grants add included. A limit of None is no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@transaction.atomic
def set_quota(asked: QuotaAmounts, *, tenant: Tenant, flavor: ResourceFlavor, by: User) -> Quota:
    """What `tenant` may use of `flavor` from now on; jobs that run stay.

    Raises NotAllowed for all but operators, Refused for numbers that contradict each other or
    take away what a grant in force gives.
    """
    require_operator(by)
    check_amounts(asked)
    lock_flavor(flavor.pk)
    quota = Quota.objects.select_for_update().filter(tenant=tenant, flavor=flavor).first()
    before = amounts(quota) if quota is not None else {}
    quota = quota or Quota(tenant=tenant, flavor=flavor)
    _keep_grants(asked, quota)
    quota.nominal = asked.nominal
    quota.borrowing_limit = asked.borrowing_limit
    quota.lending_limit = asked.lending_limit
    quota.is_of_grants = False
    quota.save()
    if amounts(quota) != before:
        audit.record("set_quota", quota, by=by, before=before, after=amounts(quota))
        ask_for_cycle(flavor.cluster_id)
        ask_for_tenancy(tenant.pk, flavor.cluster_id)
    return quota


def check_amounts(asked: QuotaAmounts) -> None:
    """Raise Refused for numbers that contradict each other."""
    for field in ("nominal", "borrowing_limit", "lending_limit"):
        if (getattr(asked, field) or 0) < 0:
            raise Refused(_("A number of GPUs cannot be negative."), field=field)
    if asked.lending_limit is not None and asked.lending_limit > asked.nominal:
        raise Refused(_("Nobody can lend more than is guaranteed to them."), field="lending_limit")


def _keep_grants(asked: QuotaAmounts, quota: Quota) -> None:
    message = _("%(gpus)d of them are granted by requests; end those first.")
    if asked.nominal < quota.granted:
        raise Refused(message % {"gpus": quota.granted}, field="nominal")
    limit = asked.borrowing_limit
    if limit is not None and limit < quota.granted_borrowing:
        raise Refused(message % {"gpus": quota.granted_borrowing}, field="borrowing_limit")
