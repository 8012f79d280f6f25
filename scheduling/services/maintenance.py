from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import User
from topology.models import Cluster, MaintenanceWindow, Node
from topology.services.cycle_request import ask_for_cycle


@transaction.atomic
def plan_maintenance(
    cluster: Cluster,
    nodes: Collection[Node],
    *,
    from_at: datetime,
    until_at: datetime,
    by: User,
    note: str = "",
) -> MaintenanceWindow:
    """Nodes kept free of jobs inside [from_at, until_at), by the cluster's clock.

    Raises NotAllowed for all but operators, Refused for no nodes, others' nodes or no time.
    """
    require_operator(by)
    if not nodes or any(node.cluster_id != cluster.pk for node in nodes):
        raise Refused(_("Name nodes of this cluster."), field="nodes")
    if until_at <= from_at:
        raise Refused(_("Maintenance ends after it begins."), field="until_at")
    window = MaintenanceWindow.objects.create(
        cluster=cluster, from_at=from_at, until_at=until_at, note=note
    )
    window.nodes.set(nodes)
    names = sorted(node.name for node in nodes)
    audit.record("plan_maintenance", window, by=by, after={"nodes": names}, reason=note)
    ask_for_cycle(cluster.pk)
    return window
