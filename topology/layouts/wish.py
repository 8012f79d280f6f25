"""A wanted layout of nodes that are alike, checked against their board, and its two files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from topology.catalog.gpus import GpuModel
from topology.catalog.mig import find_layout, find_misfit
from topology.layouts.device_plugin import PluginConfig, node_problems, write_plugin_config
from topology.layouts.faults import Fault, Problem
from topology.layouts.mig_parted import write_mig_configs
from topology.layouts.node import GpuLayout, strategy_problems
from topology.layouts.preview import NodeSetup
from topology.layouts.wanted import entries_for

# Instances wanted on a GPU, by profile; None where MIG is to be off.
Cut = Mapping[str, int] | None
_FEWEST: Final = 2  # shares of a GPU that is shared


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of nodes with GPUs of `model`. cuts: one for each GPU, in order."""

    model: GpuModel
    cuts: tuple[Cut, ...]
    plugin: PluginConfig


def wish_problems(wish: Wish) -> tuple[Problem, ...]:
    """Why no node can be like this; empty if one can."""
    misfits = [
        Problem("", Fault.MISFIT, {"gpu": gpu, "why": misfit})
        for gpu, cut in enumerate(wish.cuts)
        if cut is not None and (misfit := find_misfit(wish.model, _names(cut))) is not None
    ]
    if misfits:
        return tuple(misfits)
    layouts, models = setup_of(wish).layouts, [wish.model] * len(wish.cuts)
    replicas = wish.plugin.sharing.replicas if wish.plugin.sharing else ()
    return (
        *wish.plugin.problems,
        *(Problem(name, Fault.REPLICAS, {"found": n}) for name, n in replicas if n < _FEWEST),
        *strategy_problems(wish.plugin.strategy, layouts),
        *node_problems(wish.plugin, models, layouts),
    )


def setup_of(wish: Wish) -> NodeSetup:
    """The node as it would be, instances where the driver is expected to put them.

    Raises ValueError for a cut that the board cannot hold.
    """
    return NodeSetup(tuple(_layout(wish.model, cut) for cut in wish.cuts), wish.plugin)


def _layout(model: GpuModel, cut: Cut) -> GpuLayout:
    if cut is None:
        return None
    found = find_layout(model, _names(cut))
    if found is None:
        raise ValueError(f"{model.key} cannot hold {dict(cut)}")
    return found


def _names(cut: Mapping[str, int]) -> list[str]:
    return [name for name, count in cut.items() for _ in range(count)]


def mig_file(setup: NodeSetup, name: str) -> str:
    """The mig-parted file with this one configuration."""
    return write_mig_configs({name: entries_for(setup.layouts)})


def plugin_file(setup: NodeSetup, name: str) -> str:
    """The device plugin's file of this configuration."""
    return write_plugin_config(replace(setup.plugin, name=name))
