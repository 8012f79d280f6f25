"""What a memory estimate is asked for: a training run or a served model."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HIGHEST_STAGE: Final = 3
OPTIMISER_STAGE, GRADIENT_STAGE, WEIGHT_STAGE = 1, 2, 3  # the ZeRO stage that divides each


class Precision(StrEnum):
    """How a number is stored."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


BITS: Final[Mapping[Precision, int]] = {
    Precision.FP32: 32,
    Precision.FP16: 16,
    Precision.BF16: 16,
    Precision.FP8: 8,
    Precision.INT8: 8,
    Precision.INT4: 4,
}
TRAINABLE: Final = (Precision.FP32, Precision.FP16, Precision.BF16)


class Optimiser(StrEnum):
    """What updates the weights."""

    ADAM = "adam"
    ADAM_8BIT = "adam_8bit"
    MOMENTUM = "momentum"
    SGD = "sgd"


MOMENT_BYTES: Final[Mapping[Optimiser, int]] = {
    Optimiser.ADAM: 8,
    Optimiser.ADAM_8BIT: 2,
    Optimiser.MOMENTUM: 4,
    Optimiser.SGD: 0,
}


class Offload(StrEnum):
    """What lives in the host's memory instead; each holds the one before."""

    NONE = "none"
    OPTIMISER = "optimiser"
    PARAMETERS = "parameters"


class Checkpointing(StrEnum):
    """Which activations are computed again rather than kept: none, attention's, or all."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer. kv_heads: 0 for as many as `heads`; vocabulary: 0 if not known."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int = 0
    vocabulary: int = 0

    def __post_init__(self) -> None:
        _check_positive(layers=self.layers, hidden=self.hidden, heads=self.heads)
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is no multiple of {self.heads} heads")

    @property
    def cached_heads(self) -> int:
        """Heads with a key and a value of their own."""
        return self.kv_heads or self.heads

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training run. data_, tensor_, pipeline_parallel: GPUs are their product.

    master_weights: whether 16-bit weights are accompanied by 32-bit ones.
    micro_batch: sequences that one GPU works on at once; sequence: tokens of each.
    """

    parameters: int
    precision: Precision = Precision.BF16
    optimiser: Optimiser = Optimiser.ADAM
    master_weights: bool = True
    zero_stage: int = 0
    offload: Offload = Offload.NONE
    data_parallel: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    sequence_parallel: bool = False
    checkpointing: Checkpointing = Checkpointing.NONE
    micro_batch: int = 1
    sequence: int = 0
    shape: Shape | None = None

    def __post_init__(self) -> None:
        _check_positive(
            parameters=self.parameters,
            data_parallel=self.data_parallel,
            tensor_parallel=self.tensor_parallel,
            pipeline_parallel=self.pipeline_parallel,
            micro_batch=self.micro_batch,
        )
        if self.precision not in TRAINABLE:
            raise ValueError(f"weights of {self.precision} cannot be trained")
        if not 0 <= self.zero_stage <= HIGHEST_STAGE:
            raise ValueError(f"there is no ZeRO stage {self.zero_stage}: it is 0 to 3")
        if self.offload == Offload.OPTIMISER and self.zero_stage < GRADIENT_STAGE:
            raise ValueError("offload of the optimiser needs ZeRO stage 2 or 3")
        if self.offload == Offload.PARAMETERS and self.zero_stage < WEIGHT_STAGE:
            raise ValueError("offload of the parameters needs ZeRO stage 3")

    @property
    def gpus(self) -> int:
        return self.data_parallel * self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """A served model. batch: sequences at once; sequence: the most tokens of each."""

    parameters: int
    precision: Precision = Precision.BF16
    cache_precision: Precision = Precision.BF16
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    batch: int = 1
    sequence: int = 0
    shape: Shape | None = None

    def __post_init__(self) -> None:
        _check_positive(
            parameters=self.parameters,
            tensor_parallel=self.tensor_parallel,
            pipeline_parallel=self.pipeline_parallel,
            batch=self.batch,
        )

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def _check_positive(**amounts: int) -> None:
    for name, amount in amounts.items():
        if amount < 1:
            raise ValueError(f"{name} must be at least 1, not {amount}")
