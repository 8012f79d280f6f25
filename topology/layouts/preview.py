"""What a change of layout would do to one node, before anything reaches it.

The MIG manager does not end anybody's work: instances that are in use, or a GPU that has to be
reset while somebody is on it, make it fail. What stands in `must_end` has to be gone first.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from topology.catalog.boards import ModeChange, boards
from topology.catalog.gpus import GpuModel
from topology.catalog.mig import creation_order
from topology.catalog.sharing import SHARINGS
from topology.layouts.device_plugin import Offer, PluginConfig, node_problems, offer
from topology.layouts.faults import Problem
from topology.layouts.node import GpuLayout, strategy_problems


class Reset(StrEnum):
    """What is reset when MIG is turned on or off."""

    NONE = "none"
    NODE = "node"  # mig-parted resets every GPU if one has to be
    UNKNOWN = "unknown"  # nobody has said for this board


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """How a node is cut up and shared. layouts: one for each GPU, None where MIG is off."""

    layouts: tuple[GpuLayout, ...]
    plugin: PluginConfig


@dataclass(frozen=True, slots=True)
class NodePreview:
    """What changes on a node.

    changed: GPUs with another layout. must_end: GPUs that nobody may be using. before, after: what
    the node offers. without_order: GPUs whose instances the driver may not be able to create one by
    one. problems: why the device plugin would not hand out what comes of it.
    """

    changed: tuple[int, ...]
    must_end: tuple[int, ...]
    reset: Reset
    before: Offer
    after: Offer
    without_order: tuple[int, ...]
    problems: tuple[Problem, ...]

    @property
    def vanishing(self) -> tuple[str, ...]:
        """Resource names that jobs may ask for now and will ask for in vain."""
        return tuple(sorted(self.before.resources.keys() - self.after.resources.keys()))


def preview_node(models: Sequence[GpuModel], before: NodeSetup, after: NodeSetup) -> NodePreview:
    """What a node with GPUs of these `models` becomes."""
    changes = list(enumerate(zip(before.layouts, after.layouts, strict=True)))
    changed = tuple(gpu for gpu, (old, new) in changes if old != new)
    toggled = [gpu for gpu, (old, new) in changes if (old is None) != (new is None)]
    reset = _reset([models[gpu] for gpu in toggled])
    all_must = reset != Reset.NONE or _must_be_empty(before.plugin, after.plugin)
    cut = [(gpu, [own.profile for own in new or ()]) for gpu, (_, new) in changes if gpu in changed]
    return NodePreview(
        changed=changed,
        must_end=tuple(range(len(models))) if all_must else changed,
        reset=reset,
        before=offer(before.plugin, models, before.layouts),
        after=offer(after.plugin, models, after.layouts),
        without_order=tuple(gpu for gpu, own in cut if creation_order(models[gpu], own) is None),
        problems=(
            *after.plugin.problems,
            *strategy_problems(after.plugin.strategy, after.layouts),
            *node_problems(after.plugin, models, after.layouts),
        ),
    )


def _reset(toggled: Sequence[GpuModel]) -> Reset:
    """What turning MIG on or off on boards of these models resets."""
    known = [boards().get(model.key) for model in toggled]
    changes = {board.mode_change for board in known if board is not None}
    if ModeChange.RESETS_GPU in changes:
        return Reset.NODE
    return Reset.UNKNOWN if ModeChange.UNKNOWN in changes else Reset.NONE


def _must_be_empty(before: PluginConfig, after: PluginConfig) -> bool:
    """Whether another way of sharing takes hold only of GPUs that nobody uses: as MPS does, which
    puts them into a mode of one process. With time-slicing, running work goes on.
    """
    if before.sharing == after.sharing:
        return False
    return any(SHARINGS[own.sharing.mode].needs_empty_gpu for own in (before, after) if own.sharing)


def text_diff(before: str, after: str, name: str) -> tuple[str, ...]:
    """The lines that change between two texts, in the manner of `diff -u`; none if none does."""
    return tuple(
        difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            f"{name} (now)",
            f"{name} (then)",
            lineterm="",
        )
    )
