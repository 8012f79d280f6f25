"""What the GPUs of one node become: a configuration applied to the boards that are there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from topology.catalog.boards import boards
from topology.catalog.gpus import GpuModel
from topology.catalog.mig import MigInstance, find_layout, find_misfit, profiles
from topology.layouts.faults import Fault, Problem
from topology.layouts.mig_parted import MigConfig, MigEntry

WHOLE_GPU = "nvidia.com/gpu"


class MigStrategy(StrEnum):
    """How the device plugin names MIG instances."""

    NONE = "none"  # not at all
    SINGLE = "single"  # as whole GPUs
    MIXED = "mixed"  # each profile by a name of its own


# The instances on a GPU by start; None where MIG is off.
GpuLayout = tuple[MigInstance, ...] | None


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What a configuration makes of a node.

    layouts: by number, the GPUs that change; the others keep what they have.
    problems: why it cannot be applied; there are no layouts then.
    """

    layouts: Mapping[int, GpuLayout]
    problems: tuple[Problem, ...] = ()


def apply_config(config: MigConfig, models: Sequence[GpuModel]) -> NodeChange:
    """What `config` makes of a node with GPUs of these `models`, in their order.

    Instances stand where the driver is expected to put them.
    """
    if config.problems:
        return NodeChange({}, config.problems)
    problems: list[Problem] = []
    layouts: dict[int, GpuLayout] = {}
    for at, entry in enumerate(config.entries):
        where = f"mig-configs.{config.name}[{at}]"
        for gpu in _chosen(where, entry, models, problems):
            if gpu in layouts:
                problems.append(Problem(where, Fault.CLAIMED_TWICE, {"gpu": gpu}))
            elif entry.mig_enabled:
                layouts[gpu] = _layout(where, entry, gpu, models[gpu], problems)
            elif models[gpu].has_mig:
                layouts[gpu] = None
    return NodeChange({} if problems else layouts, tuple(problems))


def _chosen(
    where: str, entry: MigEntry, models: Sequence[GpuModel], problems: list[Problem]
) -> list[int]:
    """The GPUs that an entry speaks of."""
    last = len(models) - 1
    wanted = range(len(models)) if entry.gpus is None else entry.gpus
    problems += [
        Problem(where, Fault.NO_SUCH_GPU, {"gpu": gpu, "last": last})
        for gpu in wanted
        if gpu > last
    ]
    return [gpu for gpu in wanted if gpu <= last and _passes(entry, models[gpu])]


def _passes(entry: MigEntry, model: GpuModel) -> bool:
    """Whether a board has one of the device ids that an entry is limited to.

    Subsystem ids are not told apart: no board of the catalogue needs them.
    """
    board = boards().get(model.key)
    own = {pci_id.upper() for pci_id in board.pci_ids} if board else set()
    return not entry.device_filter or any(
        word.partition(":")[0].upper() in own for word in entry.device_filter
    )


def _layout(
    where: str, entry: MigEntry, gpu: int, model: GpuModel, problems: list[Problem]
) -> tuple[MigInstance, ...]:
    wanted = [name for name, count in entry.profiles for _ in range(count)]
    misfit = find_misfit(model, wanted)
    if misfit is not None:
        problems.append(Problem(where, Fault.MISFIT, {"gpu": gpu, "why": misfit}))
    return find_layout(model, wanted) or ()


def after(present: Sequence[GpuLayout], change: NodeChange) -> tuple[GpuLayout, ...]:
    """The layout of each GPU once `change` has been made: those not spoken of keep theirs."""
    return tuple(change.layouts.get(gpu, layout) for gpu, layout in enumerate(present))


def strategy_problems(
    strategy: MigStrategy, layouts: Sequence[GpuLayout], where: str = ""
) -> tuple[Problem, ...]:
    """Why the device plugin would not hand out a node like this under `strategy`."""
    cut = [layout for layout in layouts if layout is not None]
    sizes = {own.profile for layout in cut for own in layout}
    uneven = len(sizes) > 1 or len(cut) < len(layouts) or not all(cut)
    if strategy == MigStrategy.SINGLE and cut and uneven:
        return (Problem(where, Fault.SINGLE),)
    return ()


def resources(
    models: Sequence[GpuModel], layouts: Sequence[GpuLayout], strategy: MigStrategy
) -> Counter[str]:
    """What the device plugin offers for a node before sharing: how many of each resource name.

    A GPU that MIG has cut counts as a whole one under the strategy `none`, which does not name its
    instances.
    """
    found: Counter[str] = Counter()
    for model, layout in zip(models, layouts, strict=True):
        if layout is None or strategy == MigStrategy.NONE:
            found[WHOLE_GPU] += 1
        elif strategy == MigStrategy.SINGLE:
            found[WHOLE_GPU] += len(layout)
        else:
            known = profiles(model)
            found.update(known[own.profile].resource_name for own in layout)
    return found
