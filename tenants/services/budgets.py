from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import Budget, Tenant, User
from topology.models import Cluster
from topology.services.cycle_request import ask_for_cycle


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
    if until_at <= from_at:
        raise Refused(_("A budget ends after it begins."), field="until_at")
    budget, _is_new = Budget.objects.update_or_create(
        tenant=tenant,
        cluster=cluster,
        from_at=from_at,
        defaults={"gpu_hours": gpu_hours, "until_at": until_at},
    )
    audit.record("set_budget", budget, by=by, after={"gpu_hours": gpu_hours})
    ask_for_cycle(cluster.pk)
    return budget
