from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from scheduling.services.spans import call_off, check_seen, check_span, locked, mark_of
from tenants.access import require_operator
from tenants.models import User
from topology.models import Cluster, MaintenanceWindow, Node
from topology.services.cycle_request import ask_for_cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Nodes kept free of jobs inside [from_at, until_at), by the cluster's clock."""

    nodes: Collection[Node]
    from_at: datetime
    until_at: datetime
    note: str = ""


@transaction.atomic
def plan_maintenance(request: WindowRequest, *, cluster: Cluster, by: User) -> MaintenanceWindow:
    """A new window. Raises NotAllowed for all but operators, Refused for no nodes, others' nodes or
    no time.
    """
    require_operator(by)
    _check(request, cluster)
    window = MaintenanceWindow.objects.create(
        cluster=cluster, from_at=request.from_at, until_at=request.until_at, note=request.note
    )
    window.nodes.set(request.nodes)
    audit.record("plan_maintenance", window, by=by, after=_plain(window), reason=request.note)
    ask_for_cycle(cluster.pk)
    return window


@transaction.atomic
def change_maintenance(
    window: MaintenanceWindow, request: WindowRequest, *, by: User, seen: str
) -> MaintenanceWindow:
    """The window as requested now. seen: `window_mark` of what the operator looked at.

    Raises as plan_maintenance does, Conflict when it has been changed, NotFound when it is gone.
    """
    require_operator(by)
    window = locked(window)
    check_seen(seen, window_mark(window))
    _check(request, window.cluster)
    before = _plain(window)
    window.from_at, window.until_at = request.from_at, request.until_at
    window.note = request.note
    window.save()
    window.nodes.set(request.nodes)
    audit.record("change_maintenance", window, by=by, before=before, after=_plain(window))
    ask_for_cycle(window.cluster_id)
    return window


@transaction.atomic
def cancel_maintenance(window: MaintenanceWindow, *, by: User, at: datetime) -> None:
    """Nodes of `window` are no longer kept free; one under way ends now. at: cluster clock.

    Raises NotAllowed, NotFound when it is gone, Refused when it is over.
    """
    require_operator(by)
    window = locked(window)
    call_off(window, "cancel_maintenance", by=by, at=at, before=_plain(window))


def window_mark(window: MaintenanceWindow) -> str:
    """What tells this window as it is from any other state of it."""
    nodes = sorted(node.pk for node in window.nodes.all())
    return mark_of(window.pk, window.from_at, window.until_at, window.note, nodes)


def _check(request: WindowRequest, cluster: Cluster) -> None:
    if not request.nodes or any(node.cluster_id != cluster.pk for node in request.nodes):
        raise Refused(_("Name nodes of this cluster."), field="nodes")
    check_span(request.from_at, request.until_at)


def _plain(window: MaintenanceWindow) -> dict[str, Any]:
    return {
        "cluster": window.cluster.slug,
        "from": window.from_at.isoformat(),
        "until": window.until_at.isoformat(),
        "nodes": sorted(node.name for node in window.nodes.all()),
        "note": window.note,
    }
