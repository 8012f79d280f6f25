"""What can be claimed of nodes (DRA), as lists of their driver tell it."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction

from topology.kube.values import ClaimablesSeen, Listed, NodeSeen
from topology.models import Cluster, Node
from topology.services.claimables import claimable_gpus, with_claimables
from topology.services.cycle_request import ask_for_cycle
from topology.services.inventory import flavor_of, observe_gpus


@transaction.atomic
def observe_claimables(cluster: Cluster, seen: ClaimablesSeen, *, at: datetime) -> None:
    """Note what one list names. at: wall clock.

    A node that nobody has told of yet is not there; what can be claimed of it waits for it.
    """
    node, _made = Node.objects.select_for_update().get_or_create(
        cluster=cluster, name=seen.node, defaults={"gone_at": at}
    )
    lists = {name: gpus for name, gpus in node.claimable.items() if name != seen.name}
    if seen.gpus and not seen.gone:
        lists[seen.name] = [asdict(gpu) for gpu in seen.gpus]
    _keep(node, lists, at=at)


@transaction.atomic
def observe_listed_claimables(cluster: Cluster, listed: Listed, *, at: datetime) -> None:
    """Forget the lists that a full list of them lacks. at: wall clock."""
    for node in cluster.nodes.select_for_update().exclude(claimable={}).order_by("pk"):
        left = {name: gpus for name, gpus in node.claimable.items() if name in listed.keys}
        _keep(node, left, at=at)


def _keep(node: Node, lists: dict[str, Any], *, at: datetime) -> None:
    if lists == node.claimable:
        return
    node.claimable = lists
    if node.gives_by_claim:
        node.gpu_count = len(list(claimable_gpus(node)))
        _tell_of_gpus(node, at=at)
    node.save(update_fields=["claimable", "gpu_count", "flavor"])
    ask_for_cycle(node.cluster_id)


def _tell_of_gpus(node: Node, *, at: datetime) -> None:
    """Where no agent told of a node's GPUs, these are all that is known of them."""
    if not node.gpus.exists():
        known = with_claimables(node, NodeSeen(name=node.name))
        observe_gpus(node, known.gpus, at=at)
        node.flavor = node.flavor or flavor_of(node.cluster, known)
