"""Work on our nodes that is not ours: seen, and taken off what is planned with; never touched."""

from dataclasses import asdict

from django.db import transaction

from topology.kube.values import Listed, OthersSeen, StraySeen
from topology.models import Cluster, Node
from topology.services.cycle_request import ask_for_cycle


def observe_others(cluster: Cluster, seen: OthersSeen) -> bool:
    """Note what others take of a node; True when that is news."""
    return _write_others(cluster, seen.node, [asdict(use) for use in seen.uses])


def observe_listed_others(cluster: Cluster, listed: Listed) -> None:
    """Of the nodes that a full list does not name, others take nothing."""
    used = cluster.nodes.exclude(others=[]).exclude(name__in=listed.keys)
    for name in used.values_list("name", flat=True):
        _write_others(cluster, name, [])


@transaction.atomic
def _write_others(cluster: Cluster, node: str, uses: list[dict[str, object]]) -> bool:
    changed = cluster.nodes.filter(name=node).exclude(others=uses).update(others=uses)
    if changed:
        ask_for_cycle(cluster.pk)
    return bool(changed)


@transaction.atomic
def observe_stray(cluster: Cluster, seen: StraySeen) -> None:
    """Note what a stray takes of its node, or that it takes nothing any more.

    A report older than one taken in before is ignored.
    """
    nodes = cluster.nodes.select_for_update().filter(name=seen.node)
    if seen.use is None:
        nodes = nodes.filter(strays__has_key=seen.uid)
    node = nodes.first()
    if node is None or seen.version < node.strays.get(seen.uid, {}).get("version", 0):
        return
    strays = {uid: use for uid, use in node.strays.items() if uid != seen.uid}
    if seen.use is not None:
        strays[seen.uid] = {**asdict(seen.use), "version": seen.version}
    _write_strays(node, strays)


def observe_listed_labelled(cluster: Cluster, listed: Listed) -> None:
    """Strays that a full list of all that bears our label lacks are gone."""
    for pk in cluster.nodes.exclude(strays={}).values_list("pk", flat=True):
        with transaction.atomic():
            node = Node.objects.select_for_update().get(pk=pk)
            there = {
                uid: use
                for uid, use in node.strays.items()
                if uid in listed.keys or use["version"] > listed.version
            }
            _write_strays(node, there)


def _write_strays(node: Node, strays: dict[str, dict[str, object]]) -> None:
    if strays != node.strays:
        Node.objects.filter(pk=node.pk).update(strays=strays)
        ask_for_cycle(node.cluster_id)
