"""Where in the tree of racks, blocks and fabrics the members of a gang go.

One domain of a level takes the whole gang if one can, and the one is chosen that is left with least
room; otherwise as few domains as possible do. The same rule then holds inside each of them, down to
the node.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Level


@dataclass(frozen=True, slots=True)
class Wish:
    """The lowest level to stay inside if possible, and the one to stay inside in any case."""

    preferred: Level = Level.NODE
    required: Level | None = None


ANYWHERE: Final = Wish()
Seats = list[tuple[int, int]]
"""Places, nodes as a rule, each with a number of members."""


@dataclass(frozen=True, slots=True)
class Room:
    """What nodes offer one gang. slots: (N,) members that fit; left: (N,) what to use up first."""

    fleet: Fleet
    slots: IntArray
    left: IntArray


def spread(room: Room, count: int, wish: Wish) -> Seats | None:
    """(node, members) for `count` equal members, in any order; None if they do not fit as required.

    The nodes have slots for them in all.
    """
    if wish.preferred == Level.NODE:
        enough = (room.slots >= count).nonzero()[0]
        if len(enough):
            return [(int(enough[room.left[enough].argmin()]), count)]
    nodes = room.slots.nonzero()[0]
    home = _home(room, nodes, count, wish)
    return None if home is None else _fill(room, home, count, wish.preferred)


def has_home(room: Room, count: int, wish: Wish) -> bool:
    """Whether `spread` would find room, without looking for the best."""
    top = wish.required
    if top is None:
        return True
    return any(
        np.bincount(room.fleet.domains_inside(level, top), weights=room.slots).max() >= count
        for level in reversed(Level)
        if min(wish.preferred, top) <= level <= top
    )


def _home(room: Room, nodes: IntArray, count: int, wish: Wish) -> IntArray | None:
    """Nodes of the smallest domain that holds the gang; all of them where none does and may not."""
    top = Level.FABRIC if wish.required is None else wish.required
    lowest = min(wish.preferred, top)
    for level in Level:
        if not lowest <= level <= top:
            continue
        domain = room.fleet.domains_inside(level, wish.required)[nodes]
        sums = np.bincount(domain, weights=room.slots[nodes])
        if sums.max() < count:
            continue
        holds = np.flatnonzero(sums >= count)
        if level == wish.preferred:
            left = np.bincount(domain, weights=room.left[nodes])
            tightest: IntArray = nodes[domain == holds[np.argmin(left[holds])]]
            return tightest
        left = np.bincount(domain, weights=room.left[nodes])
        inner = room.fleet.domains(wish.preferred)[nodes]
        needed = _domains_needed(room.slots[nodes], count, domain, inner)
        best = np.lexsort((_first_of(domain)[holds], left[holds], needed[holds]))[0]
        home: IntArray = nodes[domain == holds[best]]
        return home
    return nodes if wish.required is None else None


def _domains_needed(slots: IntArray, count: int, outer: IntArray, inner: IntArray) -> IntArray:
    """By outer domain, how many inner ones `count` members need there.

    slots, outer, inner: by node, what fits there and where it is.
    """
    width = int(inner.max()) + 1
    pairs, own = np.unique(outer * width + inner, return_inverse=True)
    sums = np.bincount(own, weights=slots)
    domain = pairs // width
    falling = np.lexsort((-sums, domain))
    domain, held = domain[falling], np.cumsum(sums[falling])
    before = np.concatenate(([0.0], held))[np.searchsorted(domain, domain)]
    return np.bincount(domain, weights=held - before < count).astype(np.int64) + 1


def _first_of(domain: IntArray) -> IntArray:
    """By domain, the first index at which it stands."""
    first = np.full(int(domain.max()) + 1, len(domain))
    np.minimum.at(first, domain, np.arange(len(domain)))
    return first


def _fill(room: Room, nodes: IntArray, count: int, level: Level) -> Seats:
    """Put `count` members on `nodes`, in as few domains of `level` as possible, then below it."""
    if level == Level.NODE:
        fewest = _fewest(room.slots[nodes], room.left[nodes], count)
        return [(int(nodes[index]), amount) for index, amount in fewest]
    names, domain = np.unique(room.fleet.domains(level)[nodes], return_inverse=True)
    sums = np.bincount(domain, weights=room.slots[nodes], minlength=len(names)).astype(np.int64)
    left = np.bincount(domain, weights=room.left[nodes], minlength=len(names)).astype(np.int64)
    return [
        seat
        for index, amount in _fewest(sums, left, count)
        for seat in _fill(room, nodes[domain == index], amount, Level(level - 1))
    ]


def _fewest(slots: IntArray, left: IntArray, count: int) -> Seats:
    """(index, members) of as few places as hold `count`: the largest, the last one the tightest."""
    falling = np.lexsort((np.arange(len(slots)), left, -slots))
    held = np.cumsum(slots[falling])
    full = int(np.searchsorted(held, count))
    rest = count - (int(held[full - 1]) if full else 0)
    others = np.sort(falling[full:])
    enough = others[slots[others] >= rest]
    last = int(enough[np.argmin(left[enough])])
    whole = falling[:full]
    return [*zip(whole.tolist(), slots[whole].tolist(), strict=True), (last, rest)]
