"""Nodes and devices as arrays, read again only when any of their rows has changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.aggregates import BitXor
from django.db.models import Count, QuerySet

from scheduling.engine.arrays import IntArray, frozen, frozen_flags
from scheduling.engine.jobs import Level
from scheduling.snapshots.known import Fingerprint, Kept, Known
from topology.models import Cluster, Gpu, GpuMode, Node, ResourceFlavor
from topology.models.node import foreign_schedulers, foreign_uses, repels


class NodeRow(NamedTuple):
    """What is read of a node; the names are those of its columns."""

    id: int
    name: str
    flavor_id: int | None
    cpu_milli: int
    memory_mib: int
    is_cordoned: bool
    is_ready: bool
    is_changing: bool
    taints: list[dict[str, str]]
    others: list[dict[str, Any]]
    strays: dict[str, dict[str, Any]]
    rack__name: str | None
    fabric__name: str | None
    nvlink_domain__name: str | None


class GpuRow(NamedTuple):
    """As NodeRow, of a device."""

    id: int
    node_id: int
    index: int
    model: str
    memory_mib: int | None
    island: int
    numa: int
    is_healthy: bool
    mode: str


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """The present nodes in name order and their devices. parts: of a snapshot, by name.

    node_at, gpu_at: where each stands in the arrays, by its key in the database.
    foreign: (2, N) CPU and memory that work which is not ours takes of each node.
    foreign_gpus: (N,) how many of its devices; which of them, nobody tells us.
    """

    parts: Mapping[str, Any]
    node_at: Mapping[int, int]
    gpu_at: Mapping[int, int]
    foreign: IntArray
    foreign_gpus: IntArray


def read_hardware(cluster: Cluster, flavors: list[ResourceFlavor], known: Known) -> Hardware:
    """All of `cluster`; what has not changed is the same object as before.

    Two queries if nothing has, else four.
    """
    nodes = Node.objects.filter(cluster=cluster).present()
    gpus = Gpu.objects.filter(node__in=nodes)
    of = (
        tuple(flavor.pk for flavor in flavors),
        *_fingerprint(nodes, NodeRow),
        *_fingerprint(gpus, GpuRow),
    )
    if known.hardware is None or known.hardware.of != of:
        flavor_at = {flavor.pk: index for index, flavor in enumerate(flavors)}
        node_rows = [NodeRow(*row) for row in nodes.in_name_order().values_list(*NodeRow._fields)]
        in_order = gpus.order_by("node__name", "node_id", "index")
        gpu_rows = [GpuRow(*row) for row in in_order.values_list(*GpuRow._fields)]
        before = known.hardware.value if known.hardware else None
        known.hardware = Kept(of, _hardware(node_rows, gpu_rows, flavor_at, before))
    hardware: Hardware = known.hardware.value
    return hardware


def _fingerprint(rows: QuerySet[Any], kind: type[NodeRow | GpuRow]) -> tuple[int, int | None]:
    found = rows.aggregate(count=Count("pk"), seen=BitXor(Fingerprint(*kind._fields)))
    return found["count"], found["seen"]


def _hardware(
    nodes: list[NodeRow],
    gpus: list[GpuRow],
    flavor_at: Mapping[int, int],
    before: Hardware | None,
) -> Hardware:
    node_at = {node.id: index for index, node in enumerate(nodes)}
    parts = _nodes(nodes, flavor_at) | _gpus(gpus, node_at) | _domains(nodes)
    if before is not None:
        parts = {name: _same_or(part, before.parts[name]) for name, part in parts.items()}
    gpu_at = {gpu.id: index for index, gpu in enumerate(gpus)}
    return Hardware(parts, node_at, gpu_at, *_foreign(nodes))


def _foreign(nodes: list[NodeRow]) -> tuple[IntArray, IntArray]:
    """What is taken of each node by work that is not ours: (2, N) CPU and memory; (N,) GPUs."""
    uses = [list(foreign_uses(node.others, node.strays)) for node in nodes]
    cpu, memory, gpus = (
        [sum(use[amount] for use in own) for own in uses]
        for amount in ("cpu_milli", "memory_mib", "gpus")
    )
    return frozen([cpu, memory], (2, len(nodes)), "foreign"), frozen(
        gpus, (len(nodes),), "foreign_gpus"
    )


def _is_open(node: NodeRow) -> bool:
    """Whether it takes new members: not if others hand out its GPUs, since both would."""
    if node.is_cordoned or node.is_changing or not node.is_ready or repels(node.taints):
        return False
    return not foreign_schedulers(foreign_uses(node.others, node.strays))


def _same_or(new: Any, old: Any) -> Any:
    """`old`, if it is equal to `new`."""
    same = np.array_equal(new, old) if isinstance(new, np.ndarray) else new == old
    return old if same else new


def _nodes(nodes: list[NodeRow], flavor_at: Mapping[int | None, int]) -> dict[str, Any]:
    count = len(nodes)
    capacity = [[node.cpu_milli for node in nodes], [node.memory_mib for node in nodes]]
    # The last flavor is that of nodes which have none.
    flavors = [flavor_at.get(node.flavor_id, len(flavor_at)) for node in nodes]
    is_open = [_is_open(node) for node in nodes]
    return {
        "node_ids": tuple(node.id for node in nodes),
        "node_names": tuple(node.name for node in nodes),
        "node_flavor": frozen(flavors, (count,), "node_flavor"),
        "node_open": frozen_flags(is_open, (count,), "node_open"),
        "capacity": frozen(capacity, (2, count), "capacity"),
    }


def _gpus(gpus: list[GpuRow], node_at: Mapping[int, int]) -> dict[str, Any]:
    models = sorted({gpu.model for gpu in gpus})
    model_at = {model: index for index, model in enumerate(models)}
    numbers = {
        "gpu_node": [node_at[gpu.node_id] for gpu in gpus],
        "gpu_index": [gpu.index for gpu in gpus],
        "gpu_model": [model_at[gpu.model] for gpu in gpus],
        "gpu_memory_mib": [gpu.memory_mib or 0 for gpu in gpus],
        "gpu_island": [gpu.island for gpu in gpus],
        "gpu_numa": [gpu.numa for gpu in gpus],
    }
    shape = (len(gpus),)
    return {
        "gpu_ids": tuple(gpu.id for gpu in gpus),
        "gpu_models": tuple(models),
        "gpu_open": frozen_flags(
            [gpu.is_healthy and gpu.mode == GpuMode.EXCLUSIVE for gpu in gpus], shape, "gpu_open"
        ),
        **{name: frozen(values, shape, name) for name, values in numbers.items()},
    }


def _domains(nodes: list[NodeRow]) -> dict[str, Any]:
    """Which domain each node is in at each level. Where nobody says, a level has one domain,
    save NVLink across nodes, which nobody has unless it is said.
    """
    words = {
        Level.NODE: [node.name for node in nodes],
        Level.NVL: [node.nvlink_domain__name or f"node {node.name}" for node in nodes],
        Level.RACK: [node.rack__name or "" for node in nodes],
        Level.BLOCK: ["" for _ in nodes],
        Level.FABRIC: [node.fabric__name or "" for node in nodes],
    }
    names = tuple(tuple(dict.fromkeys(words[level])) for level in Level)
    index = [{name: at for at, name in enumerate(names[level])} for level in Level]
    domains = [[index[level][word] for word in words[level]] for level in Level]
    return {
        "domain_names": names,
        "domain_oversub_milli": tuple(tuple(0 for _ in level) for level in names),
        "node_domain": frozen(domains, (len(Level), len(nodes)), "node_domain"),
    }
