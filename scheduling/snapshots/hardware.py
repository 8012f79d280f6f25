"""Nodes and devices as arrays, read again only when any of their rows has changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.aggregates import BitXor
from django.db.models import Count, Q, QuerySet

from scheduling.engine.arrays import IntArray, frozen, frozen_flags
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Level
from scheduling.engine.snapshot import GpuMode as EngineMode
from scheduling.engine.snapshot import Snapshot
from scheduling.snapshots.known import Fingerprint, Kept, Known
from topology.catalog.boards import mig_resource
from topology.kube import names
from topology.models import SHARED, Cluster, Gpu, GpuMode, MigInstance, Node, ResourceFlavor
from topology.models.node import foreign_schedulers, foreign_uses, is_mixed, repels

GPU_MODES = {mode: EngineMode[mode.name] for mode in GpuMode}


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
    back_ends: list[str]
    layout_seen: dict[str, Any]
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
    replicas: int


class SliceRow(NamedTuple):
    """As NodeRow, of a MIG instance."""

    id: int
    gpu_id: int
    profile: str
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """The present nodes in name order and their devices. parts: of a snapshot, by name.

    node_at, gpu_at, instance_at, share_at: where each stands in the arrays, by its key in the
    database; a share by that of its GPU and its number. instance_parts, share_parts: (I,), (S,)
    what each costs in quota. fleet: what tells the cost of other parts.
    foreign: (2, N) CPU and memory that work which is not ours takes of each node.
    foreign_gpus: (N,) how many of its devices; which of them, nobody tells us.
    """

    parts: Mapping[str, Any]
    node_at: Mapping[int, int]
    gpu_at: Mapping[int, int]
    instance_at: Mapping[int, int]
    share_at: Mapping[tuple[int, int], int]
    fleet: Fleet
    instance_parts: IntArray
    share_parts: IntArray
    foreign: IntArray
    foreign_gpus: IntArray


def read_hardware(cluster: Cluster, flavors: list[ResourceFlavor], known: Known) -> Hardware:
    """All of `cluster`; what has not changed is the same object as before.

    Two queries if nothing has, else four; half as many again where a board is cut into slices.
    """
    nodes = Node.objects.filter(cluster=cluster).present()
    gpus = Gpu.objects.filter(node__in=nodes)
    slices = MigInstance.objects.filter(gpu__node__in=nodes, gpu__mode=GpuMode.MIG, gone_at=None)
    boards = _fingerprint(gpus, GpuRow, cut=Count("pk", filter=Q(mode=GpuMode.MIG)))
    is_cut = bool(boards["cut"])
    of = (
        tuple(flavor.pk for flavor in flavors),
        _fingerprint(nodes, NodeRow),
        boards,
        _fingerprint(slices, SliceRow) if is_cut else None,
    )
    if known.hardware is None or known.hardware.of != of:
        flavor_at = {flavor.pk: index for index, flavor in enumerate(flavors)}
        node_rows = [NodeRow(*row) for row in nodes.in_name_order().values_list(*NodeRow._fields)]
        in_order = gpus.order_by("node__name", "node_id", "index")
        gpu_rows = [GpuRow(*row) for row in in_order.values_list(*GpuRow._fields)]
        slice_rows = _slice_rows(slices) if is_cut else []
        before = known.hardware.value if known.hardware else None
        made = _hardware(node_rows, gpu_rows, slice_rows, flavor_at, before)
        known.hardware = Kept(of, made)
    hardware: Hardware = known.hardware.value
    return hardware


def _fingerprint(
    rows: QuerySet[Any], kind: type[NodeRow | GpuRow | SliceRow], **more: Count
) -> dict[str, int | None]:
    seen = BitXor(Fingerprint(*kind._fields))
    return rows.aggregate(count=Count("pk"), seen=seen, **more)


def _slice_rows(slices: QuerySet[MigInstance]) -> list[SliceRow]:
    in_order = slices.order_by("gpu__node__name", "gpu__node_id", "gpu__index", "start")
    return [SliceRow(*row) for row in in_order.values_list(*SliceRow._fields)]


def _hardware(
    nodes: list[NodeRow],
    gpus: list[GpuRow],
    slices: list[SliceRow],
    flavor_at: Mapping[int, int],
    before: Hardware | None,
) -> Hardware:
    node_at = {node.id: index for index, node in enumerate(nodes)}
    gpu_at = {gpu.id: index for index, gpu in enumerate(gpus)}
    offers = {gpu.id: nodes[node_at[gpu.node_id]].layout_seen.get("offers", {}) for gpu in gpus}
    shares = [
        (gpu.id, number)
        for gpu in gpus
        if gpu.mode in SHARED and names.GPU_SHARED in offers[gpu.id]
        for number in range(gpu.replicas)
    ]
    parts = _nodes(nodes, flavor_at) | _gpus(gpus, node_at) | _domains(nodes)
    parts |= _slices(slices, gpu_at, offers) | _shares(shares, gpu_at)
    if before is not None:
        parts = {name: _same_or(part, before.parts[name]) for name, part in parts.items()}
    fleet = Fleet(Snapshot.of(taken_at=0, flavors=(*map(str, flavor_at), ""), **parts))
    foreign, foreign_gpus = _foreign(nodes)
    return Hardware(
        parts,
        node_at,
        gpu_at,
        instance_at={own.id: index for index, own in enumerate(slices)},
        share_at={share: index for index, share in enumerate(shares)},
        fleet=fleet,
        instance_parts=fleet.instance_parts,
        share_parts=fleet.slot_parts,
        foreign=foreign,
        foreign_gpus=foreign_gpus,
    )


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
    if is_mixed(node.back_ends):
        return False
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
        "gpu_mode": [GPU_MODES[gpu.mode] for gpu in gpus],
    }
    shape = (len(gpus),)
    return {
        "gpu_ids": tuple(gpu.id for gpu in gpus),
        "gpu_models": tuple(models),
        "gpu_open": frozen_flags([gpu.is_healthy for gpu in gpus], shape, "gpu_open"),
        **{name: frozen(values, shape, name) for name, values in numbers.items()},
    }


def _slices(
    slices: list[SliceRow], gpu_at: Mapping[int, int], offers: Mapping[int, Mapping[str, int]]
) -> dict[str, Any]:
    """offers: by GPU, what its node hands out: instances, where it names them by profile."""
    profiles = tuple(sorted({own.profile for own in slices}))
    numbers = {
        "mig_gpu": [gpu_at[own.gpu_id] for own in slices],
        "mig_profile": [profiles.index(own.profile) for own in slices],
        "mig_start": [own.start for own in slices],
    }
    shape = (len(slices),)
    is_open = [mig_resource(own.profile) in offers[own.gpu_id] for own in slices]
    return {
        "profiles": profiles,
        "mig_open": frozen_flags(is_open, shape, "mig_open"),
        **{name: frozen(values, shape, name) for name, values in numbers.items()},
    }


def _shares(shares: list[tuple[int, int]], gpu_at: Mapping[int, int]) -> dict[str, Any]:
    return {"slot_gpu": frozen([gpu_at[gpu] for gpu, _ in shares], (len(shares),), "slot_gpu")}


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
    called = tuple(tuple(dict.fromkeys(words[level])) for level in Level)
    index = [{name: at for at, name in enumerate(called[level])} for level in Level]
    domains = [[index[level][word] for word in words[level]] for level in Level]
    return {
        "domain_names": called,
        "domain_oversub_milli": tuple(tuple(0 for _ in level) for level in called),
        "node_domain": frozen(domains, (len(Level), len(nodes)), "node_domain"),
    }
