from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from scheduling.models import BlockPart, CapacityBlock
from scheduling.services.spans import call_off, check_seen, check_span, locked, mark_of
from tenants.access import require_operator
from tenants.models import Tenant, User
from topology.models import Cluster, Node
from topology.services.cycle_request import ask_for_cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequest:
    """GPUs by node, kept inside [from_at, until_at) for jobs of `tenant`, or for nobody's."""

    name: str
    amounts: Mapping[Node, int]
    from_at: datetime
    until_at: datetime
    tenant: Tenant | None = None


@transaction.atomic
def promise_block(request: BlockRequest, *, cluster: Cluster, by: User) -> CapacityBlock:
    """Whole GPUs that are promised to people. Times are the cluster's clock.

    Raises NotAllowed for all but operators, Refused for a name in use, others' nodes, no time, or
    more GPUs than a node has left beside other blocks of that time.
    """
    require_operator(by)
    _check(request, cluster)
    block = CapacityBlock.objects.create(
        cluster=cluster,
        name=request.name,
        tenant=request.tenant,
        from_at=request.from_at,
        until_at=request.until_at,
    )
    _write_parts(block, request)
    audit.record("promise_block", block, by=by, after=_plain(block))
    ask_for_cycle(cluster.pk)
    return block


@transaction.atomic
def change_block(
    block: CapacityBlock, request: BlockRequest, *, by: User, seen: str
) -> CapacityBlock:
    """The block as requested now. seen: `block_mark` of what the operator looked at.

    Raises as promise_block does, Conflict when it has been changed, NotFound when it is gone.
    """
    require_operator(by)
    block = locked(block)
    check_seen(seen, block_mark(block))
    _check(request, block.cluster, instead_of=block)
    before = _plain(block)
    block.name, block.tenant = request.name, request.tenant
    block.from_at, block.until_at = request.from_at, request.until_at
    block.save()
    block.parts.all().delete()
    _write_parts(block, request)
    audit.record("change_block", block, by=by, before=before, after=_plain(block))
    ask_for_cycle(block.cluster_id)
    return block


@transaction.atomic
def cancel_block(block: CapacityBlock, *, by: User, at: datetime) -> None:
    """The block's GPUs are anybody's again; one under way ends now. at: cluster clock.

    Raises NotAllowed, NotFound when it is gone, Refused when it is over.
    """
    require_operator(by)
    block = locked(block)
    call_off(block, "cancel_block", by=by, at=at, before=_plain(block))


def block_mark(block: CapacityBlock) -> str:
    """What tells this block as it is from any other state of it."""
    parts = sorted((part.node_id, part.gpus) for part in block.parts.all())
    own = (block.pk, block.name, block.tenant_id, block.from_at, block.until_at)
    return mark_of(*own, parts)


def _write_parts(block: CapacityBlock, request: BlockRequest) -> None:
    BlockPart.objects.bulk_create(
        BlockPart(block=block, node=node, gpus=gpus) for node, gpus in request.amounts.items()
    )


def _check(
    request: BlockRequest, cluster: Cluster, instead_of: CapacityBlock | None = None
) -> None:
    check_span(request.from_at, request.until_at)
    others = cluster.blocks.exclude(pk=instead_of.pk if instead_of else None)
    if others.filter(name=request.name).exists():
        message = _("There is a block %s in this cluster already.")
        raise Refused(message % request.name, field="name")
    if not request.amounts or any(node.cluster_id != cluster.pk for node in request.amounts):
        raise Refused(_("Name nodes of this cluster."), field="nodes")
    Cluster.objects.select_for_update().get(pk=cluster.pk)  # or two blocks may take the same GPUs
    taken = _taken(request, instead_of)
    for node, gpus in request.amounts.items():
        if not 1 <= gpus <= node.gpu_count:
            raise Refused(
                _("%(node)s has %(gpus)d GPUs.") % {"node": node.name, "gpus": node.gpu_count},
                field="gpus",
            )
        if gpus > node.gpu_count - taken.get(node.pk, 0):
            left = node.gpu_count - taken[node.pk]
            raise Refused(
                _("%(node)s has %(gpus)d GPUs left beside other blocks of that time.")
                % {"node": node.name, "gpus": left},
                field="gpus",
            )


def _taken(request: BlockRequest, instead_of: CapacityBlock | None) -> dict[int, int]:
    """By node, the most GPUs that other blocks have at any instant of the request's time."""
    parts = list(
        BlockPart.objects.filter(
            node__in=request.amounts,
            block__from_at__lt=request.until_at,
            block__until_at__gt=request.from_at,
        )
        .exclude(block=instead_of)
        .select_related("block")
    )
    taken: dict[int, int] = {}
    for at in {request.from_at, *(part.block.from_at for part in parts)}:
        now: dict[int, int] = {}
        for part in parts:
            if part.block.from_at <= at < part.block.until_at:
                now[part.node_id] = now.get(part.node_id, 0) + part.gpus
        for node, gpus in now.items():
            taken[node] = max(taken.get(node, 0), gpus)
    return taken


def _plain(block: CapacityBlock) -> dict[str, Any]:
    return {
        "cluster": block.cluster.slug,
        "name": block.name,
        "tenant": block.tenant.slug if block.tenant else None,
        "from": block.from_at.isoformat(),
        "until": block.until_at.isoformat(),
        "gpus": dict(block.parts.order_by("node__name").values_list("node__name", "gpus")),
    }
