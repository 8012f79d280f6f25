"""A gang's members on nodes and devices: whole, or not at all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.charge import device_count
from scheduling.engine.devices import with_devices
from scheduling.engine.fit import member_slots
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, Level, PlacedMember, Request
from scheduling.engine.ledger import Ledger
from scheduling.engine.locality import ANYWHERE, Room, Seats, Wish, has_home, spread

CPU_BITS = 24
"""Room is compared by free GPUs first; so many bits below them hold the free CPU."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gang may go.

    allowed: (N,) nodes. within: (K, N) room that it may use of what is free, None for all of it.
    """

    allowed: BoolArray
    wish: Wish = ANYWHERE
    within: IntArray | None = None

    def open_slots(self, ledger: Ledger, job: JobSpec, group: int) -> IntArray:
        """(N,) members of one group that fit now where the gang may go."""
        request = job.groups[group].request
        slots = np.where(self.allowed, member_slots(ledger, job, request), 0)
        if self.within is None:
            return slots
        need = ledger.fleet.need(request)
        for kind in np.flatnonzero(need):
            np.minimum(slots, self.within[kind] // need[kind], out=slots)
        return np.maximum(slots, 0, out=slots)

    def after(self, ledger: Ledger, job: JobSpec, members: Sequence[PlacedMember]) -> "Place":
        """The place that is left once `members` are there.

        A job whose GPUs of one node must share an island does not go to the same node twice: what
        is free there may lie in another island.
        """
        allowed = self.allowed
        if job.island:
            allowed = allowed.copy()
            allowed[[member.node for member in members]] = False
        if self.within is None:
            return replace(self, allowed=allowed)
        return replace(
            self, allowed=allowed, within=self.within - amounts_of(ledger.fleet, job, members)
        )


def is_gang_of(job: JobSpec, members: Sequence[PlacedMember]) -> bool:
    """Whether `members` are a whole gang as `job` asks for it, each with as many devices."""
    counts = Counter(member.group for member in members)
    if max(counts, default=0) >= len(job.groups):
        return False
    if any(counts[index] > group.max_member for index, group in enumerate(job.groups)):
        return False
    return job.is_whole(members) and all(
        len(member.gpus) + len(member.instances) + len(member.slots)
        == device_count(job.groups[member.group].request)
        for member in members
    )


def amounts_of(fleet: Fleet, job: JobSpec, members: Sequence[PlacedMember]) -> IntArray:
    """(K, N) room that placed members take."""
    amounts = np.zeros((fleet.kinds, fleet.nodes), dtype=np.int64)
    for group, spec in enumerate(job.groups):
        nodes = [member.node for member in members if member.group == group]
        counts = np.bincount(nodes, minlength=fleet.nodes)
        amounts += np.outer(fleet.need(spec.request), counts)
    return amounts


def place_gang(ledger: Ledger, job: JobSpec, place: Place) -> tuple[PlacedMember, ...] | None:
    """The members that `job` starts with at least, by group and rank; None if they do not fit."""
    if len(job.groups) == 1 and job.min_members <= job.groups[0].max_member:
        return _place_group(ledger, job, (0, job.min_members), place=place)
    for counts in minimum_counts(job):
        members = place_members(ledger, job, counts, place=place)
        if members is not None:
            return members
    return None


def fits_gang(ledger: Ledger, job: JobSpec, place: Place) -> bool:
    """Whether `place_gang` would find a place, without choosing one where that can be said."""
    if len(job.groups) > 1:
        return place_gang(ledger, job, place) is not None
    count = job.min_members
    if count > job.groups[0].max_member:
        return False
    slots = place.open_slots(ledger, job, 0)
    if int(slots.sum()) < count:
        return False
    return has_home(Room(ledger.fleet, slots, slots), count, place.wish)


def minimum_counts(job: JobSpec) -> Iterator[tuple[int, ...]]:
    """Members per group to start with: the minima, and the earlier groups filled to `min_total`."""

    def share_out(groups: Sequence[tuple[int, int]], extra: int) -> Iterator[tuple[int, ...]]:
        if not groups:
            if extra == 0:
                yield ()
            return
        (least, most), *others = groups
        for more in range(min(extra, most - least), -1, -1):
            for counts in share_out(others, extra - more):
                yield (least + more, *counts)

    least = sum(group.min_member for group in job.groups)
    limits = [(group.min_member, group.max_member) for group in job.groups]
    return share_out(limits, job.min_members - least)


def place_members(
    ledger: Ledger, job: JobSpec, counts: Sequence[int], *, place: Place
) -> tuple[PlacedMember, ...] | None:
    """`counts` members of each group, or None if they do not all fit."""
    if len(counts) == 1:
        return _place_group(ledger, job, (0, counts[0]), place=place)
    for domain in _homes(ledger, job, counts, place=place):
        members = _place_groups(ledger.fork(), job, counts, place=domain)
        if members is not None:
            return members
    return None


def _homes(ledger: Ledger, job: JobSpec, counts: Sequence[int], *, place: Place) -> Iterator[Place]:
    """The domains that might hold all groups: the smallest first, then the one with least room."""
    slots = [place.open_slots(ledger, job, group) for group in range(len(job.groups))]
    left = room_left(ledger, Request(kind=Access.WHOLE, count=1))
    top = Level.FABRIC if place.wish.required is None else place.wish.required
    inside = Wish(place.wish.preferred)
    for level in Level:
        if not min(place.wish.preferred, top) <= level <= top:
            continue
        domain = ledger.fleet.domains_inside(level, place.wish.required)
        holds = np.ones(int(domain.max(initial=-1)) + 1, dtype=np.bool_)
        for own, count in zip(slots, counts, strict=True):
            holds &= np.bincount(domain, weights=own, minlength=len(holds)) >= count
        room = np.bincount(domain, weights=np.where(place.allowed, left, 0))
        for index in sorted(np.flatnonzero(holds).tolist(), key=lambda own: (room[own], own)):
            yield replace(place, allowed=place.allowed & (domain == index), wish=inside)
    if place.wish.required is None:
        yield replace(place, wish=inside)


def _place_groups(
    what_if: Ledger, job: JobSpec, counts: Sequence[int], *, place: Place
) -> tuple[PlacedMember, ...] | None:
    """All groups one after the other, those with the largest members first."""
    largest_first = sorted(
        range(len(counts)), key=lambda group: (-job.groups[group].request.count, group)
    )
    placed: list[PlacedMember] = []
    for group in largest_first:
        members = _place_group(what_if, job, (group, counts[group]), place=place)
        if members is None:
            return None
        what_if.take(job, members, seated=False)
        place = place.after(what_if, job, members)
        placed += members
    return tuple(sorted(placed, key=lambda member: (member.group, member.rank)))


def _place_group(
    ledger: Ledger, job: JobSpec, wanted: tuple[int, int], *, place: Place
) -> tuple[PlacedMember, ...] | None:
    """The members of one group. wanted: (group, members)."""
    group, count = wanted
    slots = place.open_slots(ledger, job, group)
    if int(slots.sum()) < count:
        return None
    left = room_left(ledger, job.groups[group].request)
    seats = spread(Room(ledger.fleet, slots, left), count, place.wish)
    if seats is None:
        return None
    return with_devices(ledger, job, group, _by_closeness(ledger, seats))


def room_left(ledger: Ledger, request: Request) -> IntArray:
    """(N,) how dear the room on each node is: members go where it is least.

    What is free, devices first, then CPU; or how much a member would make the usual mix of jobs
    lose, where the policy packs by that.
    """
    fleet, snapshot, kind = ledger.fleet, ledger.fleet.snapshot, request.kind
    if fleet.dearness is not None and kind in {Access.WHOLE, Access.FRACTION}:
        return fleet.dearness(ledger, request)
    if kind == Access.SLICE:
        devices = fleet.sum_per_node(ledger.instances, snapshot.gpu_node[snapshot.mig_gpu])
    elif kind == Access.SHARE:
        devices = fleet.sum_per_node(ledger.slots, snapshot.gpu_node[snapshot.slot_gpu])
    elif kind == Access.FRACTION:
        devices = fleet.sum_per_node(ledger.gpu_milli * fleet.hami, snapshot.gpu_node)
    else:
        devices = ledger.whole
    if not len(ledger.free):
        return devices << CPU_BITS
    left: IntArray = (devices << CPU_BITS) + np.minimum(ledger.free[0], (1 << CPU_BITS) - 1)
    return left


def _by_closeness(ledger: Ledger, seats: Seats) -> Seats:
    """The seats in such an order that neighbours share the closest domain."""
    if len(seats) == 1:
        return seats
    seats = sorted(seats)
    domains = ledger.fleet.snapshot.node_domain[:, [node for node, _ in seats]]
    return [seats[index] for index in np.lexsort(domains).tolist()]


def wish_of(job: JobSpec, at: int) -> Wish:
    """What the job asks for of closeness; a required level relaxes once its patience is over."""
    preferred = Level.NODE if job.preferred is None else job.preferred
    required = job.required
    patience = job.patience_seconds
    if required is None or patience is None or at < job.submitted_at + patience:
        return Wish(preferred, required)
    relaxed = None if required == Level.FABRIC else Level(required + 1)
    return Wish(required if job.preferred is None else preferred, relaxed)
