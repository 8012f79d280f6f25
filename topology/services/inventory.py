"""What a cluster consists of, as reported: each report may come twice, or late."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.text import slugify

from portal.core.clock import cluster_time
from portal.core.queueing import send_on_commit
from topology.kube.values import ClockSeen, GpuSeen, ListBegun, Listed, NodeSeen
from topology.models import Cluster, Gpu, Node, ResourceFlavor
from topology.services.claimables import with_claimables
from topology.services.cycle_request import ask_for_cycle
from topology.services.partitions import observe_slices

# A stored clock is left alone while it predicts what is read, give or take so much wall time.
CLOCK_SLACK = timedelta(seconds=0.1)
SEEN_EVERY = timedelta(seconds=30)
# What a plan does not look at: a change of these alone asks for no cycle.
_ASIDE = frozenset({"uid", "seen_version", "seen_at", "survey"})


@transaction.atomic
def observe_node(cluster: Cluster, seen: NodeSeen, *, at: datetime) -> bool:
    """Bring a node's rows to what was reported; True when a plan may come out differently for it.

    at: wall clock. A report older than one taken in before is ignored, unless it is of another
    machine of the same name.
    """
    node = cluster.nodes.select_for_update().filter(name=seen.name).first()
    if seen.gone:
        return node is not None and _observe_gone(node, seen, at=at)
    if node is not None and node.uid == seen.uid and seen.version < node.seen_version:
        return False

    is_new = node is None
    if node is None:
        node = Node.objects.create(cluster=cluster, name=seen.name)
    seen = with_claimables(node, seen)
    facts = _facts(cluster, seen)
    if node.is_changing and not seen.layout.offers:
        del facts["gpu_count"]  # its device plugin is away while a rollout has it in hand
    changed = _write(node, {**facts, "gone_at": None}, at=at)
    matters = observe_gpus(node, seen.gpus, at=at) or is_new or bool(changed - _ASIDE)
    if node.is_changing and "layout_seen" in changed:
        send_on_commit("scheduling.advance_node", node_id=node.pk)
    if matters:
        ask_for_cycle(cluster.pk)
    return matters


def observe_nodes_list_begun(cluster: Cluster, begun: ListBegun) -> None:
    """Take reports again from a cluster that has gone back to lower versions: it was restored."""
    cluster.nodes.filter(seen_version__gt=begun.version).update(seen_version=0)


@transaction.atomic
def observe_listed_nodes(cluster: Cluster, listed: Listed, *, at: datetime) -> int:
    """Mark as gone the nodes that a full list lacks; how many. at: wall clock."""
    count = cluster.nodes.present().exclude(name__in=listed.keys).update(gone_at=at)
    if count:
        ask_for_cycle(cluster.pk)
    return count


def observe_clock(cluster: Cluster, seen: ClockSeen) -> None:
    """Note that the cluster answered, and what its own clock showed, when the row says otherwise.

    `cluster` itself is brought up to date as well.
    """
    fields: dict[str, Any] = {}
    if seen.at is not None and _is_off(cluster, seen):
        fields = {"clock_at": seen.at, "clock_wall_at": seen.wall, "clock_speed": seen.speed}
    if fields or cluster.seen_at is None or seen.wall - cluster.seen_at >= SEEN_EVERY:
        fields["seen_at"] = seen.wall
    if fields:
        Cluster.objects.filter(pk=cluster.pk).update(**fields)
    for name, value in fields.items():
        setattr(cluster, name, value)


def _is_off(cluster: Cluster, seen: ClockSeen) -> bool:
    """Whether the stored clock would show another time than was read, or soon will."""
    if cluster.clock_at is None or cluster.clock_wall_at is None or seen.at is None:
        return True
    if cluster.clock_speed != seen.speed:
        return True
    # At 60 times the speed, one second that an answer is late is a minute of the cluster's.
    allowed = (CLOCK_SLACK + seen.slack) * max(seen.speed, 1.0)
    return abs(cluster_time(cluster, wall=seen.wall) - seen.at) > allowed


def _observe_gone(node: Node, seen: NodeSeen, *, at: datetime) -> bool:
    """A node has left, unless another machine has taken its name since."""
    stale = node.uid != seen.uid or seen.version < node.seen_version
    if stale or node.gone_at is not None:
        return False
    _write(node, {"gone_at": at, "seen_version": seen.version}, at=at)
    ask_for_cycle(node.cluster_id)
    return True


def _facts(cluster: Cluster, seen: NodeSeen) -> dict[str, Any]:
    """The fields of a Node row, by name; what they point at is made where it is missing."""
    fabric = _place(cluster.fabrics, seen.fabric)
    rack = _place(cluster.racks, seen.rack)
    if rack is not None and rack.fabric != fabric:
        rack.fabric = fabric
        rack.save(update_fields=["fabric"])
    return {
        "uid": seen.uid,
        "flavor": flavor_of(cluster, seen),
        "rack": rack,
        "fabric": fabric,
        "nvlink_domain": _place(cluster.nvlink_domains, seen.nvlink_domain),
        "cpu_milli": seen.cpu_milli,
        "memory_mib": seen.memory_mib,
        "gpu_count": seen.gpu_count,
        "is_cordoned": seen.is_cordoned,
        "is_ready": seen.is_ready,
        "taints": [dict(taint) for taint in seen.taints],
        "layout_seen": {**asdict(seen.layout), "paused": list(seen.layout.paused)},
        "back_ends": list(seen.back_ends),
        "survey": dict(seen.survey),
        "seen_version": seen.version,
    }


def _write(node: Node, fields: dict[str, Any], *, at: datetime) -> set[str]:
    """Save what differs; the names of the fields that did."""
    changed = {name for name, value in fields.items() if getattr(node, name) != value}
    for name in changed:
        setattr(node, name, fields[name])
    if changed:
        node.seen_at = at
        node.save(update_fields=[*sorted(changed), "seen_at"])
    return changed


def flavor_of(cluster: Cluster, seen: NodeSeen) -> ResourceFlavor | None:
    """The class of nodes that a node belongs to by what GPU it has; None without one."""
    if not seen.gpu_product:
        return None
    flavor = cluster.flavors.filter(gpu_model=seen.gpu_product).first()
    if flavor is not None:
        return flavor
    name = slugify(seen.gpu_product)[:63] or "gpu"
    taken = set(cluster.flavors.filter(name__startswith=name[:59]).values_list("name", flat=True))
    free = next(n for n in (name, *(f"{name[:59]}-{k}" for k in range(2, 999))) if n not in taken)
    return ResourceFlavor.objects.create(
        cluster=cluster,
        name=free,
        gpu_model=seen.gpu_product,
        gpu_memory_mib=seen.gpu_memory_mib,
    )


def _place(places: Any, name: str) -> Any:
    """The fabric, rack or domain of that name among a cluster's; None for no name."""
    return places.get_or_create(name=name[:63])[0] if name else None


def observe_gpus(node: Node, seen: tuple[GpuSeen, ...], *, at: datetime) -> bool:
    """Bring the node's Gpu rows to what was reported; True when that changed any.

    A GPU that is no longer reported is kept, unhealthy: placements of the past name it.
    """
    rows = {gpu.index: gpu for gpu in node.gpus.all()}
    made = [Gpu(node=node, **_gpu_facts(gpu)) for gpu in seen if gpu.index not in rows]
    changed = [gpu for gpu in seen if gpu.index in rows and _differs(rows[gpu.index], gpu)]
    lost = rows.keys() - {gpu.index for gpu in seen}
    # Indexes move up when a device falls out, and no two rows may share a uuid, even in between.
    for index in lost | {gpu.index for gpu in changed}:
        if rows[index].uuid in {gpu.uuid for gpu in seen}:
            Gpu.objects.filter(pk=rows[index].pk).update(uuid=f"moved-{index}")
    for gpu in changed:
        Gpu.objects.filter(pk=rows[gpu.index].pk).update(**_gpu_facts(gpu))
    Gpu.objects.bulk_create(made)
    broken = node.gpus.filter(index__in=lost, is_healthy=True).update(is_healthy=False)
    now = {gpu.index: gpu for gpu in (*rows.values(), *made)}
    cut = observe_slices([(now[gpu.index], gpu.slices) for gpu in seen], at=at)
    return bool(made or changed or broken or cut)


def _differs(row: Gpu, seen: GpuSeen) -> bool:
    return any(getattr(row, name) != value for name, value in _gpu_facts(seen).items())


def _gpu_facts(seen: GpuSeen) -> dict[str, Any]:
    return {
        "index": seen.index,
        "uuid": seen.uuid,
        "model": seen.model,
        "memory_mib": seen.memory_mib,
        "island": seen.island,
        "numa": seen.numa,
        "is_healthy": seen.healthy,
        "mode": seen.mode,
        "replicas": seen.replicas,
    }
