"""Kinds of GPU: how much memory, how many slices, how many NVLink ports."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

_ADDED: Final = re.compile(r"(-SHARED|-MIG-[^-]*)+$")


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One kind of GPU.

    key: how it is written in quotas and scenarios. products: names that its driver reports.
    memory_mib: usable memory. nvlink_ports: links of one GPU, 0 without NVLink; cards for PCIe, and
    A800 and H800, have fewer or none.
    compute_slices, placement_units: how MIG divides it; 0 where it does not.
    """

    key: str
    products: tuple[str, ...]
    memory_mib: int
    nvlink_ports: int = 0
    compute_slices: int = 0
    placement_units: int = 0

    @property
    def has_mig(self) -> bool:
        return self.compute_slices > 0


MODELS: Final = (
    GpuModel("A100-40GB", ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"), 40_960, 12, 7, 8),
    GpuModel(
        "A100-80GB",
        (
            "NVIDIA A100-SXM4-80GB",
            "NVIDIA A100 80GB PCIe",
            "NVIDIA A800-SXM4-80GB",
            "NVIDIA A800 80GB PCIe",
        ),
        81_920,
        12,
        7,
        8,
    ),
    GpuModel("A30-24GB", ("NVIDIA A30",), 24_576, 4, 4, 4),
    GpuModel(
        "H100-80GB",
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H800", "NVIDIA H800 PCIe"),
        81_559,
        18,
        7,
        8,
    ),
    GpuModel("H100-94GB", ("NVIDIA H100 NVL", "H100 SXM5 94GB", "H800 NVL"), 95_232, 18, 7, 8),
    GpuModel("H100-96GB", ("NVIDIA GH200 480GB", "H100 96GB", "NVIDIA H20"), 97_871, 18, 7, 8),
    GpuModel("GH200-144GB", ("NVIDIA GH200 144G HBM3e",), 146_432, 18, 7, 8),
    GpuModel("H200-141GB", ("NVIDIA H200", "NVIDIA H200 NVL"), 143_771, 18, 7, 8),
    GpuModel("B200-180GB", ("NVIDIA B200",), 183_359, 18, 7, 8),
    GpuModel("GB200-186GB", ("NVIDIA GB200",), 189_471, 18, 7, 8),
    GpuModel("B300-269GB", ("NVIDIA B300",), 274_432, 18, 7, 8),
    GpuModel("GB300-278GB", ("NVIDIA GB300",), 284_208, 18, 7, 8),
    GpuModel(
        "RTX-PRO-6000-BLACKWELL-96GB",
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ),
        97_887,
        0,
        4,
        12,
    ),
    GpuModel("T4-16GB", ("Tesla T4",), 15_360),
    GpuModel("L4-24GB", ("NVIDIA L4",), 23_034),
    GpuModel("L40S-48GB", ("NVIDIA L40S",), 46_068),
    GpuModel("A10-24GB", ("NVIDIA A10",), 23_028),
    GpuModel("A10G-24GB", ("NVIDIA A10G",), 23_028),
    GpuModel("A40-48GB", ("NVIDIA A40",), 46_068, 4),
    GpuModel("RTX-A6000-48GB", ("NVIDIA RTX A6000",), 49_140, 4),
    GpuModel("RTX-3090-24GB", ("NVIDIA GeForce RTX 3090",), 24_576, 4),
    GpuModel("RTX-4090-24GB", ("NVIDIA GeForce RTX 4090",), 24_564),
    GpuModel("V100-16GB", ("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-16GB"), 16_384, 6),
    GpuModel("V100-32GB", ("Tesla V100-SXM2-32GB", "Tesla V100-PCIE-32GB"), 32_768, 6),
    GpuModel("P100-16GB", ("Tesla P100-PCIE-16GB",), 16_384),
)


@cache
def find_model(word: str) -> GpuModel | None:
    """The model that `word` is the key or a product name of, or the only one it begins; or None.

    Case does not matter, nor whether a name has spaces or dashes, nor the maker in front of it, nor
    what GPU feature discovery adds behind it for GPUs that are shared or cut up.
    """
    wanted = _plain(word)
    exact = [model for model in MODELS if wanted in _names(model)]
    if exact:
        return exact[0]
    begun = begun_by(word)
    return begun[0] if len(begun) == 1 else None


def begun_by(word: str) -> tuple[GpuModel, ...]:
    """The models whose key or product name begins with `word`; none for an empty one."""
    wanted = _plain(word)
    if not wanted:
        return ()
    return tuple(
        model for model in MODELS if any(name.startswith(wanted) for name in _names(model))
    )


def _names(model: GpuModel) -> Iterator[str]:
    yield _plain(model.key)
    for product in model.products:
        yield _plain(product)


def _plain(name: str) -> str:
    plain = _ADDED.sub("", name.upper().replace(" ", "-"))
    return plain.removeprefix("NVIDIA-").removeprefix("TESLA-").removeprefix("GEFORCE-")
