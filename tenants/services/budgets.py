from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import Budget, Tenant, User
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle

FIRST_YEAR, LAST_YEAR = 2000, 2199  # far from where a calendar ends


@transaction.atomic
def set_budget(
    tenant: Tenant,
    cluster: Cluster,
    *,
    gpu_hours: int,
    from_at: datetime,
    until_at: datetime,
    by: User,
) -> Budget:
    """What `tenant` may use in `cluster` inside [from_at, until_at), by the cluster's clock.

    One that begins at the same instant is changed. Raises NotAllowed for all but operators, Refused
    for times or hours that make no budget.
    """
    require_operator(by)
    if gpu_hours < 0:
        raise Refused(_("A number of GPU-hours cannot be negative."), field="gpu_hours")
    if not FIRST_YEAR <= from_at.year <= until_at.year <= LAST_YEAR:
        raise Refused(_("Times in the years 2000 to 2199 are needed."), field="from_at")
    if until_at <= from_at:
        raise Refused(_("A budget ends after it begins."), field="until_at")
    same = Budget.objects.select_for_update().filter(
        tenant=tenant, cluster=cluster, from_at=from_at
    )
    before = _plain(known) if (known := same.first()) else None
    budget, _is_new = Budget.objects.update_or_create(
        tenant=tenant,
        cluster=cluster,
        from_at=from_at,
        defaults={"gpu_hours": gpu_hours, "until_at": until_at},
    )
    audit.record("set_budget", budget, by=by, before=before, after=_plain(budget))
    ask_for_cycle(cluster.pk)
    return budget


def _plain(budget: Budget) -> dict[str, Any]:
    return {
        "cluster": budget.cluster.slug,
        "gpu_hours": budget.gpu_hours,
        "from": budget.from_at.isoformat(),
        "until": budget.until_at.isoformat(),
    }
