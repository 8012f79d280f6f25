"""A gang's members on nodes and devices: whole, or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.devices import FreeGpu, choose_gpus
from scheduling.engine.fit import member_slots
from scheduling.engine.jobs import Access, JobSpec, Level, PlacedMember
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.locality import ANYWHERE, Room, Wish, spread

CPU_BITS = 24
"""Room is compared by free GPUs first; so many bits below them hold the free CPU."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gang may go. allowed: (N,) nodes."""

    allowed: BoolArray
    wish: Wish = ANYWHERE


def place_gang(ledger: Ledger, job: JobSpec, place: Place) -> tuple[PlacedMember, ...] | None:
    """The members that `job` starts with at least, by group and rank; None if they do not fit."""
    for counts in minimum_counts(job):
        members = place_members(ledger, job, counts, place=place)
        if members is not None:
            return members
    return None


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
    slots = [np.where(place.allowed, member_slots(ledger, job, g.request), 0) for g in job.groups]
    left = _room_left(ledger)
    top = Level.FABRIC if place.wish.required is None else place.wish.required
    inside = Wish(place.wish.preferred)
    for level in Level:
        if not min(place.wish.preferred, top) <= level <= top:
            continue
        domain = ledger.fleet.domains(level)
        holds = np.ones(int(domain.max(initial=-1)) + 1, dtype=np.bool_)
        for own, count in zip(slots, counts, strict=True):
            holds &= np.bincount(domain, weights=own, minlength=len(holds)) >= count
        room = np.bincount(domain, weights=np.where(place.allowed, left, 0))
        for index in sorted(np.flatnonzero(holds).tolist(), key=lambda own: (room[own], own)):
            yield Place(place.allowed & (domain == index), inside)
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
        what_if.take(job, members)
        placed += members
    return tuple(sorted(placed, key=lambda member: (member.group, member.rank)))


def _place_group(
    ledger: Ledger, job: JobSpec, wanted: tuple[int, int], *, place: Place
) -> tuple[PlacedMember, ...] | None:
    """The members of one group. wanted: (group, members)."""
    group, count = wanted
    slots = np.where(place.allowed, member_slots(ledger, job, job.groups[group].request), 0)
    room = Room(ledger.fleet, slots, _room_left(ledger))
    per_node = spread(room, count, place.wish)
    if per_node is None:
        return None
    return _with_devices(ledger, job, group, per_node)


def _room_left(ledger: Ledger) -> IntArray:
    """(N,) what is free on each node, to be used up where least is: GPUs first, then CPU."""
    cpu = ledger.free[0]
    left: IntArray = (ledger.whole << CPU_BITS) + np.minimum(cpu, (1 << CPU_BITS) - 1)
    return left


def _with_devices(
    ledger: Ledger, job: JobSpec, group: int, per_node: IntArray
) -> tuple[PlacedMember, ...]:
    """Members with their GPUs, ranked so that neighbours share the closest domain."""
    nodes = np.flatnonzero(per_node)
    levels = ledger.fleet.snapshot.node_domain[:, nodes]
    members: list[PlacedMember] = []
    for node in nodes[np.lexsort(levels)].tolist():
        free = _free_gpus(ledger, job, node)
        for _ in range(int(per_node[node])):
            gpus = choose_gpus(free, job.groups[group].request.count)
            free = [other for other in free if other.gpu not in gpus]
            members.append(PlacedMember(group, len(members), node, gpus))
    return tuple(members)


def _free_gpus(ledger: Ledger, job: JobSpec, node: int) -> list[FreeGpu]:
    snapshot = ledger.fleet.snapshot
    own = ledger.fleet.gpus_of(node)
    fits = (
        ledger.fleet.exclusive[own.start : own.stop]
        & (ledger.gpu_milli[own.start : own.stop] == WHOLE_MILLI)
        & (snapshot.gpu_memory_mib[own.start : own.stop] >= job.gpu_memory_mib)
    )
    return [
        FreeGpu(gpu, int(snapshot.gpu_island[gpu]), int(snapshot.gpu_numa[gpu]))
        for gpu in (np.flatnonzero(fits) + own.start).tolist()
    ]


def kind_of(job: JobSpec) -> Access:
    """The kind of GPU access of its first group that asks for any."""
    kinds = [group.request.kind for group in job.groups if group.request.kind != Access.NONE]
    return kinds[0] if kinds else Access.NONE
