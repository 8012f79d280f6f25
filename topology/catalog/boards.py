"""MIG geometry of each board, read once from `data/mig_boards.json`, which names its sources.

Everything is counted per board: a profile's number means another profile elsewhere, and names
differ between boards of one family (`instance_name` says how they are made).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).with_name("data")
_MIB_PER_GIB: Final = 1024

MIG_PREFIX: Final = "nvidia.com/mig-"


class ModeChange(StrEnum):
    """What turning MIG on or off does to a board."""

    RESETS_GPU = "resets_gpu"  # and needs everybody off it
    NO_RESET = "no_reset"
    UNKNOWN = "unknown"


def mig_resource(profile: str) -> str:
    """What the device plugin calls instances of `profile` where MIG strategy is mixed."""
    return MIG_PREFIX + profile.replace("+", ".")


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One size of MIG instance on one GPU model.

    profile_id: what `nvidia-smi mig -cgi` takes. nvml_profile: what NVML takes instead.
    width, starts: how far it reaches and where it may begin, in placement units; starts are ordered
    as the driver tries them.
    most: instances on one board. memory_mib: None where nobody has published it.
    engines: decoders, JPEG engines and optical flow engines it takes.
    """

    name: str
    profile_id: int
    nvml_profile: int
    compute_slices: int
    memory_slices: int
    memory_mib: int | None
    multiprocessors: int | None
    width: int
    starts: tuple[int, ...]
    most: int
    engines: tuple[int, int, int]

    @property
    def resource_name(self) -> str:
        """What the device plugin calls it where MIG strategy is mixed."""
        return mig_resource(self.name)

    @property
    def size(self) -> tuple[int, int]:
        """For ordering: compute slices, then placement units."""
        return self.compute_slices, self.width


@dataclass(frozen=True, slots=True)
class MigBoard:
    """How MIG divides one GPU model.

    pci_ids: device and vendor, as mig-parted's device-filter takes them.
    engines_counted: whether the engines of instances may be added up.
    unverified: what nobody has read from a real board; status: how far the rest may be trusted.
    """

    key: str
    architecture: str
    pci_ids: tuple[str, ...]
    compute_slices: int
    memory_slices: int
    placement_units: int
    gb_in_names: int
    min_driver: str
    mode_change: ModeChange
    engines_counted: bool
    status: str
    unverified: tuple[str, ...]
    sources: tuple[str, ...]
    profiles: Mapping[str, MigProfile]

    @property
    def full(self) -> MigProfile:
        """The profile that takes the whole board."""
        return max(self.profiles.values(), key=lambda own: (own.size, own.engines))


@cache
def boards() -> Mapping[str, MigBoard]:
    """Every board that MIG can divide, by the key of its GPU model."""
    read = json.loads((DATA / "mig_boards.json").read_text())
    columns = read["columns"]
    return {key: _board(key, own, columns) for key, own in read["boards"].items()}


def _board(key: str, read: Mapping[str, Any], columns: list[str]) -> MigBoard:
    rows = [dict(zip(columns, row, strict=True)) for row in read["profiles"]]
    return MigBoard(
        key=key,
        architecture=read["architecture"],
        pci_ids=tuple(read["pci_ids"]),
        compute_slices=read["compute_slices"],
        memory_slices=read["memory_slices"],
        placement_units=read["placement_units"],
        gb_in_names=read["gb_in_names"],
        min_driver=read["min_driver"],
        mode_change=ModeChange(read["mode_change"]),
        engines_counted=read["engines_counted"],
        status=read["status"],
        unverified=tuple(read["unverified"]),
        sources=tuple(read["sources"]),
        profiles={row["name"]: _profile(row) for row in rows},
    )


def _profile(row: Mapping[str, Any]) -> MigProfile:
    return MigProfile(
        name=row["name"],
        profile_id=row["profile_id"],
        nvml_profile=row["nvml_profile"],
        compute_slices=row["compute_slices"],
        memory_slices=row["memory_slices"],
        memory_mib=row["memory_mib"],
        multiprocessors=row["multiprocessors"],
        width=row["width"],
        starts=tuple(row["starts"]),
        most=row["most"],
        engines=(row["decoders"], row["jpeg_engines"], row["flow_engines"]),
    )


def instance_name(board: MigBoard, profile: MigProfile, framebuffer_mib: int) -> str:
    """What the driver calls an instance of `profile` on a board with `framebuffer_mib` of memory.

    Its part of the memory, of the board's GiB rounded up, rounded to whole numbers (go-nvlib,
    pkg/nvlib/device/mig_profile.go). Two boards of one family may differ: a GB200 has 1g.23gb or
    1g.24gb.
    """
    gib = -(-framebuffer_mib // _MIB_PER_GIB)
    gb = (2 * profile.width * gib + board.placement_units) // (2 * board.placement_units)
    slices, _, rest = profile.name.partition("g.")
    attribute = rest.partition("gb")[2]
    return f"{slices}g.{gb}gb{attribute}"
