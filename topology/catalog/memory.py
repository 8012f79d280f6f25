"""How much GPU memory training and inference take, part by part.

Every number is bytes on one GPU. Where the formulas are from, with P for parameters:

- Model states: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
  Parameter Models", SC 2020, section 3.1 and figure 1. Mixed precision with Adam holds 2P of
  weights, 2P of gradients and 12P of what the optimiser needs: 4P of master weights and twice 4P of
  moments. Of N data-parallel GPUs each holds an Nth of the optimiser's part from stage 1 on, of the
  gradients from stage 2 on, of the weights in stage 3.
- Offload of the optimiser: J. Ren et al., "ZeRO-Offload", USENIX ATC 2021: the 16-bit weights stay,
  gradients and everything of the optimiser go to the host. Offload of the parameters:
  S. Rajbhandari et al., "ZeRO-Infinity", SC 2021: what stays is what one operator works on, the
  weights and gradients of the largest, which goes from hidden to four times hidden.
- Eight-bit Adam: T. Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022.
- Activations: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
  Models", MLSys 2023, section 4. The first stage of a pipeline keeps as many micro-batches as there
  are stages, so pipelining does not lessen them. Layers with gates or fewer KV heads than the
  paper's differ by some percent.
- KV cache: a key and a value for each layer, KV head, token and sequence, as counted by W. Kwon et
  al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", SOSP
  2023: 800 KB a token for OPT-13B.

Not in them: what a CUDA context, its libraries and the communication take. `RESERVE` allows for
that; it is an allowance and no formula.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from topology.catalog.workload import (
    BITS,
    GRADIENT_STAGE,
    MOMENT_BYTES,
    OPTIMISER_STAGE,
    WEIGHT_STAGE,
    Checkpointing,
    Inference,
    Offload,
    Precision,
    Shape,
    Training,
)

MIB: Final = 1 << 20
RESERVE: Final = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on one GPU by part, and on its host.

    unknown: parts that cannot be told because the model's shape was not given; they count as 0.
    """

    parts: Mapping[str, int]
    host_bytes: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def states(self) -> int:
        """Bytes of weights, gradients and optimiser: what ZeRO divides."""
        names = ("weights", "gradients", "master_weights", "moments")
        return sum(self.parts.get(name, 0) for name in names)

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def mib(self) -> int:
        """The total in MiB, rounded up."""
        return _divide(self.total, MIB)

    @property
    def host_mib(self) -> int:
        """What is on the host, in MiB, rounded up."""
        return _divide(self.host_bytes, MIB)


def training_memory(run: Training, *, reserve: int = RESERVE) -> Estimate:
    """What a GPU of a training run holds: the one that holds most, the pipeline's first."""
    states = _states(run)
    on_host = _offloaded(run)
    parts = {name: size for name, size in states.items() if name not in on_host}
    host = sum(size for name, size in states.items() if name in on_host)
    if run.shape is None or not run.sequence:
        return Estimate({**parts, "reserve": reserve}, host, ("activations",))
    parts |= {"activations": _activations(run, run.shape), "working": _working(run, run.shape)}
    return Estimate({**parts, "reserve": reserve}, host)


def inference_memory(model: Inference, *, reserve: int = RESERVE) -> Estimate:
    """What a GPU of a served model holds."""
    split = model.gpus
    weights = _divide(model.parameters * BITS[model.precision], 8 * split)
    parts = {"weights": weights, "kv_cache": 0, "reserve": reserve}
    if model.shape is None or not model.sequence:
        return Estimate(parts, unknown=("kv_cache",))
    shape = model.shape
    layers = _divide(shape.layers, model.pipeline_parallel)
    heads = _divide(shape.cached_heads, model.tensor_parallel)
    tokens = model.batch * model.sequence
    bits = 2 * layers * heads * shape.head_size * tokens * BITS[model.cache_precision]
    return Estimate({**parts, "kv_cache": _divide(bits, 8)})


def _states(run: Training) -> dict[str, int]:
    """Bytes of weights, gradients, master weights and moments on one GPU, wherever they live."""
    split = run.tensor_parallel * run.pipeline_parallel
    width = BITS[run.precision] // 8
    has_master = run.master_weights and run.precision != Precision.FP32
    per_parameter = {
        "weights": (width, WEIGHT_STAGE),
        "gradients": (width, GRADIENT_STAGE),
        "master_weights": (4 if has_master else 0, OPTIMISER_STAGE),
        "moments": (MOMENT_BYTES[run.optimiser], OPTIMISER_STAGE),
    }
    return {
        name: _divide(
            run.parameters * size, split * (run.data_parallel if run.zero_stage >= stage else 1)
        )
        for name, (size, stage) in per_parameter.items()
    }


def _offloaded(run: Training) -> frozenset[str]:
    if run.offload == Offload.NONE:
        return frozenset()
    optimiser = {"gradients", "master_weights", "moments"}
    return frozenset(optimiser | ({"weights"} if run.offload == Offload.PARAMETERS else set()))


def _activations(run: Training, shape: Shape) -> int:
    """Activations kept for the way back, by all layers; and the logits where one GPU has both ends
    of the pipeline.
    """
    tokens = run.micro_batch * run.sequence
    kept = shape.layers * _layer(run, shape, run.checkpointing)
    if run.pipeline_parallel > 1:
        return kept
    return kept + _divide(4 * tokens * (shape.hidden + shape.vocabulary), run.tensor_parallel)


def _layer(run: Training, shape: Shape, checkpointing: Checkpointing) -> int:
    """Activations kept of one layer.

    Counted in values of 2 bytes as the paper does, and in dropout masks of 1 byte.
    """
    width = BITS[run.precision] // 8
    values = run.micro_batch * run.sequence * shape.hidden
    if checkpointing == Checkpointing.FULL:
        return width * values
    everywhere, divided = (4 * width + 2) * values, 12 * width * values
    if checkpointing == Checkpointing.NONE:
        divided += _scores(run, shape)
    if run.sequence_parallel:
        everywhere, divided = 0, everywhere + divided
    return everywhere + _divide(divided, run.tensor_parallel)


def _scores(run: Training, shape: Shape) -> int:
    """Attention's scores, softmax and dropout of one layer, before they are divided."""
    width = BITS[run.precision] // 8
    return (2 * width + 1) * shape.heads * run.sequence**2 * run.micro_batch


def _working(run: Training, shape: Shape) -> int:
    """What is there for a moment only: a layer computed again, and weights gathered for use."""
    again = _layer(run, shape, Checkpointing.NONE) - _layer(run, shape, run.checkpointing)
    gathered = 0
    if run.zero_stage == WEIGHT_STAGE:
        width = BITS[run.precision] // 8
        gathered = _divide(2 * width * 4 * shape.hidden**2, run.tensor_parallel)
    return again + gathered


def _divide(amount: int, parts: int) -> int:
    """`amount` over `parts`, rounded up."""
    return -(-amount // parts)
