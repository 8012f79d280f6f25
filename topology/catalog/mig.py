"""MIG layouts: which instances go together on one GPU, and where.

A placement is given in placement units of the board (eight on most). A layout is valid when every
instance stands where its profile may, none overlap, and compute slices, media engines and the most
instances of each profile suffice. `boards.py` has the numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from topology.catalog.boards import MigBoard, MigProfile, boards
from topology.catalog.gpus import GpuModel
from topology.catalog.wording import Translate, gettext_noop

_NONE: Final[Mapping[str, MigProfile]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, order=True)
class MigInstance:
    """One instance on a GPU: the placement unit it starts at, and its profile's name."""

    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


class ImpossibleLayoutError(ValueError):
    """The instances cannot stand on one GPU together; the message names the first that does not."""


class Cause(StrEnum):
    """Why a profile has no place on a board; the first that holds."""

    NO_MIG = "no_mig"
    NO_SUCH_PROFILE = "no_such_profile"
    TOO_MANY = "too_many"
    COMPUTE_SLICES = "compute_slices"
    MEMORY_SLICES = "memory_slices"
    ENGINES = "engines"
    NO_PLACE = "no_place"


_WORDS: Final = {
    Cause.NO_MIG: gettext_noop("{model} has no MIG"),
    Cause.NO_SUCH_PROFILE: gettext_noop("{model} has no profile {profile}"),
    Cause.TOO_MANY: gettext_noop("{model} holds at most {available} of {profile}, not {asked}"),
    Cause.COMPUTE_SLICES: gettext_noop("{model} has {available} compute slices, not {asked}"),
    Cause.MEMORY_SLICES: gettext_noop("{model} has {available} memory slices, not {asked}"),
    Cause.ENGINES: gettext_noop("the media engines of {model} do not suffice for {profile} too"),
    Cause.NO_PLACE: gettext_noop("{model} has no free place where {profile} may start"),
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """The first profile of a wanted set that has no place on a board, largest first, and why.

    asked, available: how many of what `cause` names, over the whole set; 0 where it names nothing.
    """

    model: str
    profile: str
    cause: Cause
    asked: int = 0
    available: int = 0

    def text(self, translate: Translate = gettext_noop) -> str:
        """What is wrong, as a sentence in the language of `translate`."""
        return translate(_WORDS[self.cause]).format(
            model=self.model, profile=self.profile, asked=self.asked, available=self.available
        )

    def __str__(self) -> str:
        return self.text()


def profiles(model: GpuModel) -> Mapping[str, MigProfile]:
    """The MIG profiles of `model` by name, smallest first; none for a model without MIG."""
    board = boards().get(model.key)
    return board.profiles if board else _NONE


def largest_first(model: GpuModel, names: Iterable[str]) -> list[str]:
    """The profile names ordered by compute slices, then memory, then name."""
    known = profiles(model)
    return sorted(names, key=lambda name: (*_descending(known[name].size), name))


def layout_order(model: GpuModel, layout: Iterable[MigInstance]) -> list[MigInstance]:
    """The instances of a layout, largest first, then by where they start."""
    known = profiles(model)
    return sorted(layout, key=lambda own: (*_descending(known[own.profile].size), own))


def _descending(size: tuple[int, int]) -> tuple[int, int]:
    return -size[0], -size[1]


def check_layout(model: GpuModel, layout: Iterable[MigInstance]) -> None:
    """Raise ImpossibleLayoutError if `layout` does not fit on one GPU of `model`."""
    known = profiles(model)
    room = _empty(model)
    for instance in layout:
        profile = known.get(instance.profile)
        if profile is None or room is None:
            raise ImpossibleLayoutError(f"{model.key} has no profile {instance.profile}")
        if instance.start not in profile.starts:
            starts = ", ".join(map(str, sorted(profile.starts)))
            raise ImpossibleLayoutError(
                f"{instance.profile} cannot start at {instance.start}, only at {starts}"
            )
        room = room.beside(profile, instance.start)
        if room is None:
            raise ImpossibleLayoutError(f"{instance} does not fit")


def find_layout(
    model: GpuModel, wanted: Sequence[str], standing: Sequence[MigInstance] = ()
) -> tuple[MigInstance, ...] | None:
    """Where instances of the `wanted` profiles may stand beside those `standing`, or None.

    The largest are placed first, each at the first place in the driver's order that leaves the
    others theirs: where one order of creation works, that is what the driver does too. The answer
    is ordered by start and holds the standing ones too.
    """
    known = profiles(model)
    room = _room(model, standing)
    if room is None or any(name not in known for name in wanted):
        return None
    found = _extend(room, [known[name] for name in largest_first(model, wanted)], 0)
    return None if found is None else tuple(sorted([*standing, *found]))


def find_misfit(
    model: GpuModel, wanted: Sequence[str], standing: Sequence[MigInstance] = ()
) -> Misfit | None:
    """The first of the `wanted` profiles, largest first, that has no place; None if all have."""
    known = profiles(model)
    if not known and wanted:
        return Misfit(model.key, wanted[0], Cause.NO_MIG)
    for name in wanted:
        if name not in known:
            return Misfit(model.key, name, Cause.NO_SUCH_PROFILE)
    ordered = largest_first(model, wanted)
    for count, name in enumerate(ordered, start=1):
        if find_layout(model, ordered[:count], standing) is None:
            everything = [known[own.profile] for own in standing] + [known[own] for own in ordered]
            return _explain(boards()[model.key], known[name], everything)
    return None


def _explain(board: MigBoard, profile: MigProfile, together: Sequence[MigProfile]) -> Misfit:
    amounts = (
        (Cause.TOO_MANY, together.count(profile), profile.most),
        (Cause.COMPUTE_SLICES, sum(own.compute_slices for own in together), board.compute_slices),
        (Cause.MEMORY_SLICES, sum(own.memory_slices for own in together), board.memory_slices),
    )
    for cause, asked, available in amounts:
        if asked > available:
            return Misfit(board.key, profile.name, cause, asked, available)
    short = board.engines_counted and any(
        sum(own.engines[kind] for own in together) > most
        for kind, most in enumerate(board.full.engines)
    )
    return Misfit(board.key, profile.name, Cause.ENGINES if short else Cause.NO_PLACE)


def place_by_driver(
    model: GpuModel, profile_ids: Sequence[int], standing: Sequence[MigInstance] = ()
) -> tuple[MigInstance, ...]:
    """Where the driver puts instances that are created one by one, in the order given.

    profile_ids: as `nvidia-smi mig -cgi` takes them. Raises ImpossibleLayoutError for the one that
    the driver would refuse. Unlike `find_layout` nothing is moved for the sake of a later one.
    """
    by_id = {profile.profile_id: profile for profile in profiles(model).values()}
    room = _room(model, standing)
    placed: list[MigInstance] = []
    for profile_id in profile_ids:
        profile = by_id.get(profile_id)
        if profile is None or room is None:
            raise ImpossibleLayoutError(f"{model.key} has no profile of number {profile_id}")
        start = room.first_start(profile)
        if start is None:
            raise ImpossibleLayoutError(f"{profile.name}: insufficient resources")
        room = room.beside(profile, start)
        placed.append(MigInstance(start, profile.name))
    return tuple(placed)


def creation_order(
    model: GpuModel, wanted: Sequence[str], standing: Sequence[MigInstance] = ()
) -> tuple[str, ...] | None:
    """An order in which the driver can create the `wanted` profiles one by one, or None.

    Largest first where that works, otherwise the first other order that does. A set may have a
    layout and no order: the driver then has to be told every place, which mig-parted does not do.
    """
    known = profiles(model)
    room = _room(model, standing)
    if room is None or any(name not in known for name in wanted):
        return None
    found = _order(room, [known[name] for name in largest_first(model, wanted)])
    return None if found is None else tuple(profile.name for profile in found)


def _order(room: "_Room", left: Sequence[MigProfile]) -> list[MigProfile] | None:
    if not left:
        return []
    starts = {profile.name: room.first_start(profile) for profile in left}
    if None in starts.values():
        return None
    for index, profile in enumerate(left):
        if profile in left[:index]:
            continue
        more = room.beside(profile, starts[profile.name] or 0)
        others = [*left[:index], *left[index + 1 :]]
        found = _order(more, others) if more else None
        if found is not None:
            return [profile, *found]
    return None


@cache
def useful_starts(model: GpuModel, profile: str, layout: tuple[MigInstance, ...]) -> int:
    """How many instances of `profile` could still be added beside `layout`."""
    known = profiles(model).get(profile)
    added = 0
    while known and find_layout(model, [profile] * (added + 1), layout) is not None:
        added += 1
    return added


@dataclass(frozen=True, slots=True)
class _Room:
    """What a board has left beside the instances that stand on it.

    taken: a bit for each placement unit. engines: left of each kind, or None if not counted.
    """

    taken: int
    compute_slices: int
    engines: tuple[int, int, int] | None
    counts: Mapping[str, int]

    def beside(self, profile: MigProfile, start: int) -> "_Room | None":
        """The room with one more instance of `profile` at `start`, or None if it does not fit."""
        mask = ((1 << profile.width) - 1) << start
        count = self.counts.get(profile.name, 0) + 1
        compute = self.compute_slices - profile.compute_slices
        if self.taken & mask or compute < 0 or count > profile.most:
            return None
        engines = self.engines
        if engines is not None:
            decoders, jpeg, flow = profile.engines
            engines = engines[0] - decoders, engines[1] - jpeg, engines[2] - flow
            if min(engines) < 0:
                return None
        counts = {**self.counts, profile.name: count}
        return _Room(self.taken | mask, compute, engines, counts)

    def first_start(self, profile: MigProfile) -> int | None:
        """Where the driver would put the next instance of `profile`, or None."""
        return next((start for start in profile.starts if self.beside(profile, start)), None)


def _empty(model: GpuModel) -> _Room | None:
    board = boards().get(model.key)
    if board is None:
        return None
    engines = board.full.engines if board.engines_counted else None
    return _Room(0, board.compute_slices, engines, {})


def _room(model: GpuModel, standing: Sequence[MigInstance]) -> _Room | None:
    """What a board has left; None if it has no MIG, or the standing ones do not fit together."""
    known = profiles(model)
    room = _empty(model)
    for instance in standing:
        if room is None or instance.profile not in known:
            return None
        room = room.beside(known[instance.profile], instance.start)
    return room


def _extend(room: _Room, left: Sequence[MigProfile], first: int) -> list[MigInstance] | None:
    """Places for the profiles `left`, or None.

    first: how many starts to pass over, so that equal profiles are not tried in every order.
    """
    if not left:
        return []
    profile, *others = left
    for index, start in enumerate(profile.starts[first:], start=first):
        more = room.beside(profile, start)
        if more is None:
            continue
        again = others and others[0] is profile
        found = _extend(more, others, index + 1 if again else 0)
        if found is not None:
            return [MigInstance(start, profile.name), *found]
    return None
