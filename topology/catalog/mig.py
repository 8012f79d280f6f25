"""MIG: the profiles of each GPU model, where their instances may start, and which go together.

A placement is given in placement units of the board (eight on most). A layout is valid when every
instance stands where its profile may, none overlap, and compute slices, media engines and the most
instances of each profile suffice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from topology.catalog.gpus import MODELS, GpuModel


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One size of MIG instance on one GPU model.

    starts, width: where it may begin and how far it reaches, in placement units.
    most: instances on one GPU. engines: decoders, JPEG engines and optical flow engines it takes.
    """

    name: str
    compute_slices: int
    width: int
    starts: tuple[int, ...]
    most: int
    engines: tuple[int, int, int]


@dataclass(frozen=True, slots=True, order=True)
class MigInstance:
    """One instance on a GPU: the placement unit it starts at, and its profile's name."""

    start: int
    profile: str


class ImpossibleLayoutError(ValueError):
    """The instances cannot stand on one GPU together; the message names the first that does not."""


def profiles(model: GpuModel) -> Mapping[str, MigProfile]:
    """The MIG profiles of `model` by name, smallest first; none for a model without MIG."""
    return _PROFILES.get(model.key, {})


def check_layout(model: GpuModel, layout: Iterable[MigInstance]) -> None:
    """Raise ImpossibleLayoutError if `layout` does not fit on one GPU of `model`."""
    known = profiles(model)
    placed: list[MigInstance] = []
    for instance in layout:
        profile = known.get(instance.profile)
        if profile is None:
            raise ImpossibleLayoutError(f"{model.key} has no profile {instance.profile}")
        if instance.start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            raise ImpossibleLayoutError(
                f"{instance.profile} cannot start at {instance.start}, only at {starts}"
            )
        if not _goes_with(model, placed, instance):
            raise ImpossibleLayoutError(f"{instance.profile}@{instance.start} does not fit")
        placed.append(instance)


def find_layout(
    model: GpuModel, wanted: Sequence[str], standing: Sequence[MigInstance] = ()
) -> tuple[MigInstance, ...] | None:
    """Where instances of the `wanted` profiles may stand beside those `standing`, or None.

    The widest are placed first, each as far to the end as it may, as the driver does; the answer is
    ordered by start and holds the standing ones too.
    """
    known = profiles(model)
    if any(name not in known for name in wanted):
        return None
    widest_first = sorted(wanted, key=lambda name: (-known[name].width, name))
    found = _extend(model, list(standing), widest_first)
    return None if found is None else tuple(sorted(found))


def _extend(
    model: GpuModel, placed: list[MigInstance], left: Sequence[str]
) -> list[MigInstance] | None:
    if not left:
        return placed
    for start in sorted(profiles(model)[left[0]].starts, reverse=True):
        instance = MigInstance(start, left[0])
        if _goes_with(model, placed, instance):
            found = _extend(model, [*placed, instance], left[1:])
            if found is not None:
                return found
    return None


def _goes_with(model: GpuModel, placed: Sequence[MigInstance], new: MigInstance) -> bool:
    """Whether `new` fits beside `placed`, each of which fits by itself."""
    known = profiles(model)
    profile = known[new.profile]
    taken = {
        unit
        for other in placed
        for unit in range(other.start, other.start + known[other.profile].width)
    }
    if taken & set(range(new.start, new.start + profile.width)):
        return False
    together = [known[other.profile] for other in placed] + [profile]
    counts = Counter(other.name for other in together)
    full = max(known.values(), key=lambda other: (other.width, other.engines))
    return (
        sum(other.compute_slices for other in together) <= model.compute_slices
        and counts[new.profile] <= profile.most
        and all(
            sum(other.engines[engine] for other in together) <= full.engines[engine]
            for engine in range(len(full.engines))
        )
    )


@cache
def useful_starts(model: GpuModel, profile: str, layout: tuple[MigInstance, ...]) -> int:
    """How many instances of `profile` could still be added beside `layout`."""
    placed = list(layout)
    added = 0
    while (more := _extend(model, placed, [profile])) is not None:
        placed = more
        added += 1
    return added


def _seven_slices(
    memory: Sequence[int], engines: Sequence[tuple[int, int, int]]
) -> tuple[MigProfile, ...]:
    """The profiles of a board of seven slices. memory: GB in the names of 1g, 1g doubled, 3g, 7g;
    engines: of 1g, 1g+me, 1g doubled, 2g, 3g, 4g, 7g.
    """
    one, two, half, full = memory
    shapes = (
        (f"1g.{one}gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
        (f"1g.{one}gb+me", 1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
        (f"1g.{two}gb", 1, 2, (0, 2, 4, 6), 4),
        (f"2g.{two}gb", 2, 2, (0, 2, 4), 3),
        (f"3g.{half}gb", 3, 4, (0, 4), 2),
        (f"4g.{half}gb", 4, 4, (0,), 1),
        (f"7g.{full}gb", 7, 8, (0,), 1),
    )
    return tuple(MigProfile(*shape, own) for shape, own in zip(shapes, engines, strict=True))


_AMPERE: Final = (
    (0, 0, 0), (1, 1, 1), (1, 0, 0), (1, 0, 0), (2, 0, 0), (2, 0, 0), (5, 1, 1),
)  # fmt: skip
_HOPPER: Final = (
    (1, 1, 0), (1, 1, 1), (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (7, 7, 1),
)  # fmt: skip
_QUARTERS: Final = (0, 1, 2, 3)
_PRO_QUARTERS: Final = (0, 3, 6, 9)
_PRO_HALVES: Final = (0, 6)


def _blackwell(memory: Sequence[int]) -> tuple[MigProfile, ...]:
    """As Hopper: how many engines each instance takes is not published for these boards."""
    return _seven_slices(memory, _HOPPER)


_TABLE: Final[dict[str, tuple[MigProfile, ...]]] = {
    "A100-40GB": _seven_slices((5, 10, 20, 40), _AMPERE),
    "A100-80GB": _seven_slices((10, 20, 40, 80), _AMPERE),
    "A30-24GB": (
        MigProfile("1g.6gb", 1, 1, _QUARTERS, 4, (0, 0, 0)),
        MigProfile("1g.6gb+me", 1, 1, _QUARTERS, 1, (1, 1, 1)),
        MigProfile("2g.12gb", 2, 2, (0, 2), 2, (2, 0, 0)),
        MigProfile("2g.12gb+me", 2, 2, (0, 2), 1, (2, 1, 1)),
        MigProfile("4g.24gb", 4, 4, (0,), 1, (4, 1, 1)),
    ),
    "H100-80GB": _seven_slices((10, 20, 40, 80), _HOPPER),
    "H100-94GB": _seven_slices((12, 24, 47, 94), _HOPPER),
    "H100-96GB": _seven_slices((12, 24, 48, 96), _HOPPER),
    "GH200-144GB": _seven_slices((18, 36, 72, 144), _HOPPER),
    "H200-141GB": _seven_slices((18, 35, 71, 141), _HOPPER),
    "B200-180GB": _blackwell((23, 45, 90, 180)),
    "GB200-186GB": _blackwell((23, 47, 93, 186)),
    "B300-269GB": _blackwell((34, 67, 135, 269)),
    "GB300-278GB": _blackwell((35, 70, 139, 278)),
    "RTX-PRO-6000-BLACKWELL-96GB": (
        MigProfile("1g.24gb", 1, 3, _PRO_QUARTERS, 4, (1, 1, 0)),
        MigProfile("1g.24gb+me", 1, 3, _PRO_QUARTERS, 1, (1, 1, 1)),
        MigProfile("1g.24gb+gfx", 1, 3, _PRO_QUARTERS, 4, (1, 1, 0)),
        MigProfile("1g.24gb+me.all", 1, 3, _PRO_QUARTERS, 1, (4, 4, 1)),
        MigProfile("1g.24gb-me", 1, 3, _PRO_QUARTERS, 4, (0, 0, 0)),
        MigProfile("2g.48gb", 2, 6, _PRO_HALVES, 2, (2, 2, 0)),
        MigProfile("2g.48gb+gfx", 2, 6, _PRO_HALVES, 2, (2, 2, 0)),
        MigProfile("2g.48gb+me.all", 2, 6, _PRO_HALVES, 1, (4, 4, 1)),
        MigProfile("2g.48gb-me", 2, 6, _PRO_HALVES, 2, (0, 0, 0)),
        MigProfile("4g.96gb", 4, 12, (0,), 1, (4, 4, 1)),
        MigProfile("4g.96gb+gfx", 4, 12, (0,), 1, (4, 4, 1)),
    ),
}
_PROFILES: Final[dict[str, dict[str, MigProfile]]] = {
    model.key: {profile.name: profile for profile in _TABLE.get(model.key, ())} for model in MODELS
}
