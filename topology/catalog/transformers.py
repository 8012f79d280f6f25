"""Language models that people often train or serve, with their shapes.

Sources, each the table of the authors and the configuration published with the weights:
H. Touvron et al., "Llama 2", 2023; A. Dubey et al., "The Llama 3 Herd of Models", 2024;
Qwen Team, "Qwen2.5 Technical Report", 2024.
"""

from dataclasses import dataclass
from typing import Final

from topology.catalog.workload import Shape


@dataclass(frozen=True, slots=True)
class Transformer:
    """A published model. key: what addresses and forms call it."""

    key: str
    name: str
    parameters: int
    shape: Shape


TRANSFORMERS: Final = (
    Transformer("qwen2.5-0.5b", "Qwen2.5 0.5B", 494_000_000, Shape(24, 896, 14, 2, 151_936)),
    Transformer("qwen2.5-1.5b", "Qwen2.5 1.5B", 1_544_000_000, Shape(28, 1536, 12, 2, 151_936)),
    Transformer("llama-2-7b", "Llama 2 7B", 6_738_000_000, Shape(32, 4096, 32, 32, 32_000)),
    Transformer("llama-3.1-8b", "Llama 3.1 8B", 8_030_000_000, Shape(32, 4096, 32, 8, 128_256)),
    Transformer("llama-2-13b", "Llama 2 13B", 13_016_000_000, Shape(40, 5120, 40, 40, 32_000)),
    Transformer("qwen2.5-32b", "Qwen2.5 32B", 32_764_000_000, Shape(64, 5120, 40, 8, 152_064)),
    Transformer("llama-3.1-70b", "Llama 3.1 70B", 70_554_000_000, Shape(80, 8192, 64, 8, 128_256)),
    Transformer(
        "llama-3.1-405b", "Llama 3.1 405B", 405_854_000_000, Shape(126, 16_384, 128, 8, 128_256)
    ),
)
