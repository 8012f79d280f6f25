from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from scheduling.models import BlockPart, CapacityBlock
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
    more GPUs than a node has.
    """
    require_operator(by)
    _check(request, cluster)
    amounts = request.amounts
    block = CapacityBlock.objects.create(
        cluster=cluster,
        name=request.name,
        tenant=request.tenant,
        from_at=request.from_at,
        until_at=request.until_at,
    )
    BlockPart.objects.bulk_create(
        BlockPart(block=block, node=node, gpus=gpus) for node, gpus in amounts.items()
    )
    after = {node.name: gpus for node, gpus in amounts.items()}
    audit.record("promise_block", block, by=by, after=after)
    ask_for_cycle(cluster.pk)
    return block


def _check(request: BlockRequest, cluster: Cluster) -> None:
    if request.until_at <= request.from_at:
        raise Refused(_("A block ends after it begins."), field="until_at")
    if cluster.blocks.filter(name=request.name).exists():
        message = _("There is a block %s in this cluster already.")
        raise Refused(message % request.name, field="name")
    if not request.amounts or any(node.cluster_id != cluster.pk for node in request.amounts):
        raise Refused(_("Name nodes of this cluster."), field="nodes")
    for node, gpus in request.amounts.items():
        if not 1 <= gpus <= node.gpu_count:
            raise Refused(
                _("%(node)s has %(gpus)d GPUs.") % {"node": node.name, "gpus": node.gpu_count},
                field="gpus",
            )
