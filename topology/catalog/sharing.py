"""Ways to share one GPU, and what each keeps apart.

Sources: NVIDIA's MPS documentation and MIG user guide; NVIDIA/k8s-device-plugin v0.20.0
(api/config/v1, cmd/mps-control-daemon); Project-HAMi/HAMi; Project-HAMi/volcano-vgpu-device-plugin.
How well latency holds up is general knowledge and not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from topology.catalog.gpus import GpuModel


class SharingMode(StrEnum):
    """How a GPU is handed out."""

    EXCLUSIVE = "exclusive"
    MIG = "mig"
    MPS = "mps"
    HAMI = "hami"
    VOLCANO_VGPU = "volcano_vgpu"
    TIME_SLICING = "time_slicing"


class Wall(IntEnum):
    """How strongly something of one tenant is kept from another; larger is stronger."""

    NONE = 0  # nothing holds it
    INTERCEPTED = 1  # calls are caught in the program itself, which a hostile one gets round
    DRIVER = 2  # the driver holds it
    HARDWARE = 3
    WHOLE = 4  # there is no other tenant


class Backend(StrEnum):
    """Who hands the GPUs of a node to containers; never two on one node."""

    DEVICE_PLUGIN = "device_plugin"
    HAMI = "hami"
    VOLCANO_VGPU = "volcano_vgpu"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What one way of sharing keeps apart.

    memory_size: that nobody takes more memory than is theirs. memory_content: that nobody reads
    another's. bandwidth: of memory and its cache. compute: a share of the processors.
    faults: that one tenant's fatal error ends nobody else's work.
    """

    memory_size: Wall
    memory_content: Wall
    bandwidth: Wall
    compute: Wall
    faults: Wall

    @property
    def weakest(self) -> Wall:
        return min(self.memory_size, self.memory_content, self.bandwidth, self.compute, self.faults)


@dataclass(frozen=True, slots=True)
class Sharing:
    """One way of sharing and what it means for those who use it.

    equal_shares: all shares of a GPU have one size. peer_to_peer: GPUs or shares of them can talk
    over NVLink. metrics: use is measured for each tenant, and not for the whole GPU only.
    needs_empty_gpu: a change ends what runs there. for_strangers: tenants need not trust each
    other.
    """

    mode: SharingMode
    backend: Backend
    isolation: Isolation
    equal_shares: bool
    peer_to_peer: bool
    metrics: bool
    needs_empty_gpu: bool
    for_strangers: bool


_ALONE: Final = Isolation(Wall.WHOLE, Wall.WHOLE, Wall.WHOLE, Wall.WHOLE, Wall.WHOLE)
_SLICES: Final = Isolation(
    Wall.HARDWARE, Wall.HARDWARE, Wall.HARDWARE, Wall.HARDWARE, Wall.HARDWARE
)
_CLIENTS: Final = Isolation(Wall.DRIVER, Wall.DRIVER, Wall.NONE, Wall.DRIVER, Wall.NONE)
_CAUGHT: Final = Isolation(Wall.INTERCEPTED, Wall.DRIVER, Wall.NONE, Wall.INTERCEPTED, Wall.NONE)
_TURNS: Final = Isolation(Wall.NONE, Wall.DRIVER, Wall.NONE, Wall.NONE, Wall.NONE)

SHARINGS: Final[Mapping[SharingMode, Sharing]] = {
    sharing.mode: sharing
    for sharing in (
        Sharing(
            SharingMode.EXCLUSIVE,
            Backend.DEVICE_PLUGIN,
            _ALONE,
            equal_shares=True,
            peer_to_peer=True,
            metrics=True,
            needs_empty_gpu=False,
            for_strangers=True,
        ),
        Sharing(
            SharingMode.MIG,
            Backend.DEVICE_PLUGIN,
            _SLICES,
            equal_shares=False,
            peer_to_peer=False,
            metrics=True,
            needs_empty_gpu=True,
            for_strangers=True,
        ),
        Sharing(
            SharingMode.MPS,
            Backend.DEVICE_PLUGIN,
            _CLIENTS,
            equal_shares=True,
            peer_to_peer=True,
            metrics=False,
            needs_empty_gpu=True,
            for_strangers=False,
        ),
        Sharing(
            SharingMode.HAMI,
            Backend.HAMI,
            _CAUGHT,
            equal_shares=False,
            peer_to_peer=True,
            metrics=True,
            needs_empty_gpu=False,
            for_strangers=False,
        ),
        Sharing(
            SharingMode.VOLCANO_VGPU,
            Backend.VOLCANO_VGPU,
            _CAUGHT,
            equal_shares=False,
            peer_to_peer=True,
            metrics=True,
            needs_empty_gpu=False,
            for_strangers=False,
        ),
        Sharing(
            SharingMode.TIME_SLICING,
            Backend.DEVICE_PLUGIN,
            _TURNS,
            equal_shares=True,
            peer_to_peer=True,
            metrics=False,
            needs_empty_gpu=False,
            for_strangers=False,
        ),
    )
}

# What the device plugin enforces, though CUDA itself allows 60 from 13.1 on. It draws the line
# above Volta, whose hardware could hold 48 too.
MPS_MOST: Final = 48
MPS_MOST_BEFORE_TURING: Final = 16
HAMI_MOST: Final = 10  # its deviceSplitCount, unless configured otherwise
_BEFORE_TURING: Final = ("V100", "P100")


def most_shares(mode: SharingMode, model: GpuModel) -> int | None:
    """How many tenants one GPU of `model` holds at most in `mode`; None where nothing limits it."""
    if mode == SharingMode.EXCLUSIVE:
        return 1
    if mode == SharingMode.MIG:
        return model.compute_slices
    if mode == SharingMode.MPS:
        old = model.key.startswith(_BEFORE_TURING)
        return MPS_MOST_BEFORE_TURING if old else MPS_MOST
    if mode in {SharingMode.HAMI, SharingMode.VOLCANO_VGPU}:
        return HAMI_MOST
    return None


_TOGETHER: Final = (
    {SharingMode.EXCLUSIVE, SharingMode.MIG},
    {SharingMode.TIME_SLICING, SharingMode.MIG},
)


def may_share_a_node(one: SharingMode, other: SharingMode) -> bool:
    """Whether one node may have GPUs in both modes.

    One back end hands out a whole node. The device plugin shares by resource name, so that all
    whole GPUs of a node are shared alike or none is; MIG instances have names of their own. MPS it
    does not offer beside anything else.
    """
    return one == other or {one, other} in _TOGETHER
