"""What a cluster has and lets us do: asked, and noted. Nothing in the cluster is changed."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction

from portal.core.errors import ClusterAway
from portal.core.queueing import send_on_commit
from topology.kube.adoption import NamespaceSeen, namespaces_of
from topology.kube.gateway import RefusedByCluster
from topology.kube.live import LiveGateway
from topology.kube.rights import TO_LOOK, TO_MANAGE, missing_rights
from topology.kube.stack import stack_of
from topology.kube.wire import FORBIDDEN, ApiError, Wire
from topology.models import Cluster, ClusterCheck
from topology.services.pod_groups import note_offer

_LONGEST_TROUBLE = 500
_MOST_WORK = 200  # of one namespace


def ask_for_check(cluster: Cluster) -> None:
    """Have it checked once the surrounding transaction is in the database; else the beat does."""
    send_on_commit("topology.check_cluster", cluster_id=cluster.pk)


def findings(wire: Wire) -> dict[str, Any]:
    """The fields of a ClusterCheck, asked of the cluster now. ClusterAway, RefusedByCluster."""
    try:
        stack, namespaces = stack_of(wire), _namespaces(wire)
    except ApiError as error:
        raise RefusedByCluster(str(error)) from error
    return {
        "kubernetes": stack.kubernetes[:60],
        "nodes": stack.nodes,
        "gpu_nodes": stack.gpu_nodes,
        "parts": [asdict(part) for part in stack.parts],
        "closed": list(stack.closed),
        "unguarded": list(LiveGateway(wire).missing_policies()),
        "namespaces": namespaces,
        **_rights(wire),
    }


def check_cluster(cluster: Cluster, wire: Wire, *, at: datetime) -> ClusterCheck:
    """Ask the cluster, and note what it says, or why it could not be asked. at: wall clock."""
    try:
        found = {**findings(wire), "trouble": ""}
    except (ClusterAway, RefusedByCluster) as error:
        found = {"trouble": str(error)[:_LONGEST_TROUBLE]}
    return note_check(cluster, found, at=at)


@transaction.atomic
def note_check(cluster: Cluster, found: dict[str, Any], *, at: datetime) -> ClusterCheck:
    """The row of what was found. at: wall clock."""
    row, _ = ClusterCheck.objects.update_or_create(
        cluster=cluster, defaults={**found, "checked_at": at}
    )
    if "parts" in found:
        note_offer(cluster, found)
    return row


def _namespaces(wire: Wire) -> list[dict[str, Any]]:
    """None where they may not be listed: then nobody can take one over."""
    try:
        return [{**asdict(seen), "work": _plain(seen)} for seen in namespaces_of(wire)]
    except ApiError as error:
        if error.status == FORBIDDEN:
            return []
        raise


def _plain(seen: NamespaceSeen) -> list[dict[str, Any]]:
    """The first of what waits in it: a row is no place for thousands."""
    return [
        {"kind": work.kind, "name": work.name, "state": work.state, "gpus": work.gpus}
        for work in seen.work[:_MOST_WORK]
    ]


def _rights(wire: Wire) -> dict[str, Any]:
    try:
        missing = set(missing_rights(wire, TO_LOOK + TO_MANAGE))
    except RefusedByCluster:
        return {"knows_rights": False, "lacks_to_look": [], "lacks_to_manage": []}
    return {
        "knows_rights": True,
        "lacks_to_look": [str(right) for right in TO_LOOK if right in missing],
        "lacks_to_manage": [str(right) for right in TO_MANAGE if right in missing],
    }
