"""From rows to the pure values that layouts are checked and previewed by."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from django.db.models import Count

from topology.catalog.gpus import MODELS, GpuModel, find_model
from topology.catalog.mig import MigInstance
from topology.catalog.sharing import SharingMode
from topology.kube.values import LayoutSeen, NodeSeen
from topology.layouts.device_plugin import PluginConfig, PluginSharing, offer
from topology.layouts.node import WHOLE_GPU, GpuLayout, MigStrategy
from topology.layouts.preview import NodeSetup
from topology.layouts.wish import Wish, setup_of
from topology.models import Gpu, GpuMode, Layout, LayoutVersion, Node, NodeChange
from topology.querysets import NodeQuerySet

Slices = Sequence[tuple[str, int]] | None
_SAME_MEMORY = 0.1  # two boards of one family differ by more


def model_of(layout: Layout) -> GpuModel:
    """The board that a layout is for."""
    return next(model for model in MODELS if model.key == layout.gpu_model)


def board_of(node: Node) -> GpuModel | None:
    """What all GPUs of a node are; None where they differ, or nobody knows the board.

    A word that could mean several boards is settled by the memory of the GPU.
    """
    found = {_board_of(gpu, node) for gpu in node.gpus.all()}
    return found.pop() if len(found) == 1 else None


def boards_of(nodes: NodeQuerySet) -> dict[int, tuple[GpuModel, int]]:
    """The board of each of `nodes`, as `board_of`, and how many of it, by the node's key.

    One query; nodes of boards that nobody knows are left out.
    """
    rows = Gpu.objects.filter(node__in=nodes).order_by()
    rows = rows.values_list("node", "model", "memory_mib", "node__flavor__gpu_model")
    found: dict[int, list[tuple[GpuModel | None, int]]] = {}
    for node, model, memory_mib, word, count in rows.annotate(count=Count("pk")):
        found.setdefault(node, []).append((_named(model, word or "", memory_mib), count))
    return {
        node: (board, sum(count for _board, count in parts))
        for node, parts in found.items()
        if (board := parts[0][0]) is not None and {own for own, _count in parts} == {board}
    }


def _board_of(gpu: Gpu, node: Node) -> GpuModel | None:
    return _named(gpu.model, node.flavor.gpu_model if node.flavor else "", gpu.memory_mib)


@lru_cache(maxsize=512)
def _named(gpu_model: str, flavor_model: str, memory_mib: int | None) -> GpuModel | None:
    words = [gpu_model, flavor_model]
    models = [model for word in words if (model := find_model(word)) is not None]
    return next((model for model in models if _has_memory(model, memory_mib)), None)


def _has_memory(model: GpuModel, memory_mib: int | None) -> bool:
    return not memory_mib or abs(model.memory_mib - memory_mib) <= _SAME_MEMORY * model.memory_mib


def wish_of(version: LayoutVersion) -> Wish:
    """What a version asks for."""
    sharing = None
    if version.sharing:
        sharing = PluginSharing(
            SharingMode(version.sharing),
            version.rename,
            version.refuse_many,
            ((WHOLE_GPU, version.replicas),),
        )
    plugin = PluginConfig(version.config_name, MigStrategy(version.strategy), sharing)
    return Wish(model_of(version.layout), tuple(version.cuts), plugin)


def setup_seen(seen: LayoutSeen, slices: Sequence[Slices]) -> NodeSetup:
    """How a node is cut up and shared.

    slices: of each GPU, in order, the profile and start of its instances; None where MIG is off.
    """
    sharing = None
    if seen.sharing:
        rename = any(name.endswith(".shared") for name in seen.offers)
        sharing = PluginSharing(
            SharingMode(seen.sharing),
            rename,
            refuse_many=False,
            replicas=((WHOLE_GPU, seen.replicas),),
        )
    plugin = PluginConfig(seen.plugin_config, MigStrategy(seen.strategy), sharing)
    return NodeSetup(tuple(_layout(own) for own in slices), plugin)


def _layout(slices: Slices) -> GpuLayout:
    if slices is None:
        return None
    return tuple(sorted(MigInstance(start, profile) for profile, start in slices))


def offers_of(wish: Wish) -> dict[str, int]:
    """What a node that is as wished offers, by resource name."""
    setup = setup_of(wish)
    found = offer(setup.plugin, [wish.model] * len(setup.layouts), setup.layouts).resources
    return {name: count for name, count in found.items() if count}


def setup_of_row(node: Node) -> NodeSetup:
    """How a node was last reported to be cut up and shared."""
    gpus = sorted(node.gpus.all(), key=lambda gpu: gpu.index)
    slices = [_slices(gpu) if gpu.mode == GpuMode.MIG else None for gpu in gpus]
    return setup_seen(read_layout_seen(node.layout_seen), slices)


def _slices(gpu: Gpu) -> list[tuple[str, int]]:
    there = [own for own in gpu.instances.all() if own.gone_at is None]
    return [(own.profile, own.start) for own in there]


def read_layout_seen(kept: Mapping[str, Any]) -> LayoutSeen:
    """A LayoutSeen as rows keep it."""
    return LayoutSeen(**{**kept, "paused": tuple(kept.get("paused", ()))})


def confirmed(seen: NodeSeen) -> dict[str, Any]:
    """What `NodeChange.before` keeps of a node: all that a way back needs."""
    return {
        "layout": {**asdict(seen.layout), "paused": list(seen.layout.paused)},
        "slices": [list(gpu.slices) if gpu.mode == GpuMode.MIG else None for gpu in seen.gpus],
        "was_cordoned": seen.is_cordoned,
    }


def setup_before(change: NodeChange) -> NodeSetup:
    """How the node of `change` was before anything was touched."""
    seen = read_layout_seen(change.before["layout"])
    return setup_seen(seen, change.before["slices"])
