"""A file of mig-parted or of the device plugin that somebody pastes, as far as it is a layout."""

from collections import Counter
from dataclasses import dataclass

from topology.catalog.gpus import GpuModel
from topology.layouts.device_plugin import (
    PluginConfig,
    config_named,
    node_problems,
    read_plugin_configs,
)
from topology.layouts.faults import Fault, Problem, RefusedError
from topology.layouts.mig_parted import MigConfig, read_mig_configs
from topology.layouts.node import after, apply_config
from topology.layouts.wish import Cut


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a file says. cuts: of each GPU; None if it says nothing of MIG. plugin: likewise.

    problems: why it is refused; nothing of it is to be taken over then.
    """

    cuts: tuple[Cut, ...] | None = None
    plugin: PluginConfig | None = None
    problems: tuple[Problem, ...] = ()


def read_pasted(text: str, name: str, model: GpuModel, gpus: int) -> Pasted:
    """What `text` makes of a node with so many GPUs of `model`, which it found whole.

    name: of one of its configurations; empty for the only one, or the first.
    """
    try:
        try:
            return _mig(read_mig_configs(text), name, model, gpus)
        except RefusedError as error:
            if not is_of_the_plugin(error.problem):
                raise
        return _plugin(read_plugin_configs(text), name, model, gpus)
    except RefusedError as error:
        return Pasted(problems=(error.problem,))


def is_of_the_plugin(problem: Problem) -> bool:
    """Whether a text that is no file of mig-parted may be one of the device plugin."""
    missing = {Fault.MISSING_KEY, Fault.UNKNOWN_KEY}
    return problem.fault in missing or problem.where == "mig-configs"


def _mig(configs: tuple[MigConfig, ...], name: str, model: GpuModel, gpus: int) -> Pasted:
    chosen = next((own for own in configs if own.name == name or not name), None)
    if chosen is None:
        known = ", ".join(own.name for own in configs)
        raise RefusedError(Problem("", Fault.NO_CONFIG, {"key": name, "known": known}))
    change = apply_config(chosen, [model] * gpus)
    if change.problems:
        return Pasted(problems=change.problems)
    layouts = after([None] * gpus, change)
    return Pasted(
        cuts=tuple(
            None if layout is None else Counter(own.profile for own in layout) for layout in layouts
        )
    )


def _plugin(configs: tuple[PluginConfig, ...], name: str, model: GpuModel, gpus: int) -> Pasted:
    chosen = config_named(configs, name) if name else configs[0]
    unshared = node_problems(chosen, [model] * gpus, [None] * gpus)
    real = tuple(own for own in unshared if own.fault != Fault.NOT_ON_NODE)
    problems = (*chosen.problems, *real)
    return Pasted(problems=problems) if problems else Pasted(plugin=chosen)
