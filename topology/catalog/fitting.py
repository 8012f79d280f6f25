"""Where a memory estimate fits, and the cheapest change to a run that does not fit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Final

from topology.catalog.boards import MigBoard, MigProfile, boards
from topology.catalog.gpus import MODELS, GpuModel
from topology.catalog.memory import Estimate, inference_memory, training_memory
from topology.catalog.workload import (
    WEIGHT_STAGE,
    Checkpointing,
    Inference,
    Offload,
    Training,
)

# An instance has a little less than its part of the board: 90 to 98 of 100 where it is published.
_USABLE: Final = Fraction(9, 10)
_MOST_TENSOR_PARALLEL: Final = 8  # beyond one node it is slower than it is worth
_MOST_GROWTH: Final = 64  # times the GPUs that were asked for


@dataclass(frozen=True, slots=True)
class Home:
    """A GPU or a MIG instance of one, and its memory.

    profile: None for the whole GPU. is_measured: whether somebody has published the memory, or it
    is worked out, on the low side, from the board's.
    """

    model: GpuModel
    profile: str | None
    memory_mib: int
    is_measured: bool

    @property
    def name(self) -> str:
        return self.model.key if self.profile is None else f"{self.model.key} {self.profile}"


@cache
def homes() -> tuple[Home, ...]:
    """Every GPU and every size of MIG instance, least memory first."""
    found = [home for model in MODELS for home in _homes_of(model)]
    return tuple(sorted(found, key=lambda own: (own.memory_mib, own.name)))


def homes_for(memory_mib: int) -> tuple[Home, ...]:
    """Those with at least `memory_mib`, the smallest first."""
    return tuple(home for home in homes() if home.memory_mib >= memory_mib)


def _homes_of(model: GpuModel) -> Iterator[Home]:
    yield Home(model, None, model.memory_mib, is_measured=True)
    board = boards().get(model.key)
    if board is None:
        return
    for profile in board.profiles.values():
        memory = instance_memory_mib(model, board, profile)
        yield Home(model, profile.name, memory, is_measured=profile.memory_mib is not None)


def instance_memory_mib(model: GpuModel, board: MigBoard, profile: MigProfile) -> int:
    """Memory of one instance: as published, or nine tenths of its part of the board."""
    if profile.memory_mib is not None:
        return profile.memory_mib
    return int(_USABLE * model.memory_mib * profile.width / board.placement_units)


@dataclass(frozen=True, slots=True)
class TrainingChange:
    """A run that fits, made from one that does not, and what it then takes."""

    run: Training
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class InferenceChange:
    """A served model that fits, made from one that does not, and what it then takes."""

    model: Inference
    estimate: Estimate


def cheapest_training_change(
    run: Training, memory_mib: int, *, host_mib: int = 0
) -> TrainingChange | None:
    """The cheapest variant of `run` that fits into `memory_mib` on each GPU, or None.

    host_mib: what the host can give to each GPU; without it no offload is proposed.

    What is tried: higher ZeRO stages, more activation checkpointing, a smaller micro-batch, offload
    to the host, and more GPUs, data-parallel or tensor-parallel. Cheapest is fewest GPUs, then what
    slows the run least: offload most, then computing everything again (a third more work), ZeRO
    stage 3 (half as much communication again), a halved micro-batch, and attention computed again.
    A run that fits already is its own answer.
    """
    for variant in sorted(_variants(run), key=lambda own: _cost(run, own)):
        estimate = training_memory(variant)
        moved = variant.offload != run.offload
        if estimate.mib <= memory_mib and not (moved and estimate.host_mib > host_mib):
            return TrainingChange(variant, estimate)
    return None


def _variants(run: Training) -> Iterator[Training]:
    offloads, checkpointings = list(Offload), list(Checkpointing)
    choices = product(
        range(run.zero_stage, 4),
        offloads[offloads.index(run.offload) :],
        checkpointings[checkpointings.index(run.checkpointing) :],
        _halvings(run.micro_batch),
        _doublings(run.data_parallel, run.data_parallel * _MOST_GROWTH),
        _doublings(run.tensor_parallel, _MOST_TENSOR_PARALLEL),
    )
    for stage, offload, checkpointing, micro_batch, data, tensor in choices:
        if _is_offload_possible(stage, offload):
            yield replace(
                run,
                zero_stage=stage,
                offload=offload,
                checkpointing=checkpointing,
                micro_batch=micro_batch,
                data_parallel=data,
                tensor_parallel=tensor,
            )


def _is_offload_possible(stage: int, offload: Offload) -> bool:
    least = {Offload.NONE: 0, Offload.OPTIMISER: 2, Offload.PARAMETERS: 3}
    return stage >= least[offload]


def _cost(run: Training, variant: Training) -> tuple[int, ...]:
    checkpointings = list(Checkpointing)
    return (
        variant.gpus,
        list(Offload).index(variant.offload),
        int(variant.checkpointing == Checkpointing.FULL),
        int(variant.zero_stage == WEIGHT_STAGE),
        run.micro_batch // variant.micro_batch,
        checkpointings.index(variant.checkpointing),
        variant.zero_stage,
        variant.tensor_parallel,
    )


def cheapest_inference_change(model: Inference, memory_mib: int) -> InferenceChange | None:
    """The cheapest variant of `model` that fits into `memory_mib` on each GPU, or None.

    What is tried: more tensor-parallel GPUs, and fewer sequences at once. Fewest GPUs first. The
    weights are never made smaller: that changes what the model answers.
    """
    choices = product(
        _doublings(model.tensor_parallel, _MOST_TENSOR_PARALLEL), _halvings(model.batch)
    )
    for tensor, batch in choices:
        variant = replace(model, tensor_parallel=tensor, batch=batch)
        estimate = inference_memory(variant)
        if estimate.mib <= memory_mib:
            return InferenceChange(variant, estimate)
    return None


def _halvings(amount: int) -> list[int]:
    """`amount`, its half, and so on down to 1."""
    found = [amount]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def _doublings(amount: int, most: int) -> list[int]:
    """`amount`, its double, and so on up to `most`."""
    found = [amount]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found
