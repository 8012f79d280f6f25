"""Links between GPUs, and how close the GPUs of a job are as one number from 0 to 100: its topology
quality.

quality = 100 x the weighted mean of four shares, each from 0 to 1, over those that apply and are
known:

    NVLink      50  pairs of its GPUs that NVLink joins, of all pairs
    network     25  1 divided by the worst oversubscription on the way between its nodes
    GPUDirect   15  nodes whose network cards reach GPU memory directly, of all its nodes
    NUMA        10  members whose GPUs hang on one NUMA node, of all members

Each weighs at least as much as all that stand below it together, so that no gain below outweighs
the loss of a whole share. More of any share never lowers the quality.

A job on one node has no network share and no GPUDirect share. What nobody has told us is left out
and named as unknown, rather than taken for good or bad.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Final

WEIGHTS: Final = {"nvlink": 50, "network": 25, "gpudirect": 15, "numa": 10}


@dataclass(frozen=True, slots=True)
class Closeness:
    """The shares that make up the quality; None for what is unknown or does not apply."""

    nvlink: Fraction | None
    network: Fraction | None
    gpudirect: Fraction | None
    numa: Fraction | None


def quality(closeness: Closeness) -> int:
    """The topology quality from 0 to 100; 0 if nothing is known."""
    shares = {name: getattr(closeness, name) for name in WEIGHTS}
    known = {name: share for name, share in shares.items() if share is not None}
    total = sum(WEIGHTS[name] for name in known)
    if not total:
        return 0
    mean = sum(WEIGHTS[name] * share for name, share in known.items()) / total
    return int(mean * 100 + Fraction(1, 2))


def unknown_shares(closeness: Closeness, *, is_on_several_nodes: bool) -> tuple[str, ...]:
    """The shares that apply and that nobody has told us, the heaviest first.

    That NUMA nodes are unknown and that no member has two GPUs looks alike: both count as unknown.
    """
    across_nodes = {"network", "gpudirect"}
    return tuple(
        name
        for name in WEIGHTS
        if getattr(closeness, name) is None and (is_on_several_nodes or name not in across_nodes)
    )


class LinkKind(IntEnum):
    """How two devices of a node are joined, as `nvidia-smi topo -m` says it; larger is closer."""

    SYS = 1  # across the link between sockets
    NODE = 2  # between PCIe host bridges of one NUMA node
    PHB = 3  # through one PCIe host bridge
    PXB = 4  # through several PCIe switches
    PIX = 5  # through one PCIe switch at most
    NVLINK = 6


_POINTS: Final = {
    LinkKind.SYS: 10,
    LinkKind.NODE: 20,
    LinkKind.PHB: 30,
    LinkKind.PXB: 40,
    LinkKind.PIX: 50,
}
_POINTS_PER_NVLINK: Final = 100


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """How two devices are joined. lanes: NVLinks between them, 0 over PCIe."""

    kind: LinkKind
    lanes: int = 0

    def __post_init__(self) -> None:
        if (self.lanes > 0) != (self.kind == LinkKind.NVLINK):
            raise ValueError(f"{self.kind.name} with {self.lanes} NVLinks")

    def __str__(self) -> str:
        return f"NV{self.lanes}" if self.lanes else self.kind.name

    @property
    def points(self) -> int:
        """What the pair counts for in `set_points`."""
        return self.lanes * _POINTS_PER_NVLINK or _POINTS[self.kind]


def set_points(links: Iterable[Link]) -> int:
    """Points of a set of GPUs: the sum over its pairs, with the numbers of go-gpuallocator.

    The device plugin prefers by the same sum, so that what it picks on a node agrees with what was
    planned. It sees no NVLinks to a switch, but then all sets are equal.
    """
    return sum(link.points for link in links)


def slowest(links: Iterable[Link]) -> Link | None:
    """The link that a ring through all of the GPUs is limited by at least; None for one GPU."""
    return min(links, default=None)


@dataclass(frozen=True, slots=True)
class NvlinkSpeed:
    """One NVLink generation. mb_per_second: of one link, one way, as `nvidia-smi nvlink -s` prints.

    version: what NVML's GetNvLinkVersion answers.
    """

    name: str
    version: int
    mb_per_second: int


# Printed by real boards: NVIDIA/k8s-test-infra, pkg/gpu/mocknvml/configs, and NVIDIA's page on the
# health check `nvlink`; 14,062 from users' output. Collectives reach 80 to 90 of 100.
NVLINK_SPEEDS: Final = (
    NvlinkSpeed("2.0", 2, 25_781),
    NvlinkSpeed("3.0", 4, 25_781),
    NvlinkSpeed("3.1", 5, 25_781),
    NvlinkSpeed("4.0", 6, 26_562),
    NvlinkSpeed("5.0", 7, 53_125),
)
NVLINK_BRIDGE_MB_PER_SECOND: Final = 14_062  # RTX 3090, RTX A6000, A40


def nvlink_mb_per_second(version: int, lanes: int) -> int | None:
    """Speed one way between two GPUs with `lanes` NVLinks of an NVML `version`, or None."""
    for speed in NVLINK_SPEEDS:
        if speed.version == version:
            return speed.mb_per_second * lanes
    return None
