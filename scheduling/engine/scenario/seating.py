"""Which devices the members of a `run` or `keep` line hold."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from scheduling.engine.jobs import Access, Request
from scheduling.engine.scenario import values
from scheduling.engine.scenario.survey import node_of
from scheduling.engine.scenario.world import Job, Node, Seat, World
from scheduling.engine.snapshot import GpuMode

Place = Sequence[tuple[str, int, str]]
Device = tuple[int, int | None, int | None]
"""GPU, placement start of an instance, replica."""

_DEVICE: Final = re.compile(r"([^/]+)/(\d+)(?:@(\d+)|#(\d+))")
WHOLE_MILLI: Final = 1000


@dataclass(slots=True)
class Devices:
    """Devices of nodes, by node and number: GPUs, MIG instances by start, replicas."""

    gpus: set[tuple[str, int]] = field(default_factory=set)
    instances: set[tuple[str, int, int]] = field(default_factory=set)
    slots: set[tuple[str, int, int]] = field(default_factory=set)
    milli: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, seat: Seat, request: Request) -> None:
        part = request.kind == Access.FRACTION
        for gpu in seat.gpus:
            key = seat.node, gpu
            self.milli[key] = self.milli.get(key, 0) + request.gpu_milli * part
            if not part:
                self.gpus.add(key)
        self.instances.update((seat.node, gpu, start) for gpu, start in seat.instances)
        self.slots.update((seat.node, gpu, replica) for gpu, replica in seat.slots)


def held_devices(world: World, *, staying: bool) -> Devices:
    """What jobs hold now; with `staying` only what those hold that are not on their way out."""
    held = Devices()
    for job in world.placed():
        for seat in job.seats:
            leaves = job.state == "stopping" or seat in job.leaving
            if not (staying and leaves):
                held.add(seat, job.groups[seat.group].request)
    return held


def read_devices(word: str) -> list[tuple[str, int, int | None, int | None]]:
    """(node, GPU, placement start, replica) of each device of `a/0-1+4,b/5@4,c/0#2`."""
    found: list[tuple[str, int, int | None, int | None]] = []
    for part in word.split(","):
        one = _DEVICE.fullmatch(part)
        if one:
            start = int(one[3]) if one[3] else None
            replica = int(one[4]) if one[4] else None
            found.append((one[1], int(one[2]), start, replica))
            continue
        node, slash, numbers = part.partition("/")
        if not slash:
            raise ValueError(f"{part!r} is no device: write node/0-3")
        found += [(node, number, None, None) for number in values.numbers(numbers)]
    return found


def seats_of(
    world: World, job: Job, place: Place, devices: str, *, later: bool = False
) -> tuple[Seat, ...]:
    """The members of `job` on the nodes of `place`, on the devices named or the lowest that fit.

    later: the devices need only be free once those that are stopping are gone.
    Raises ValueError if a node lacks them, or the number of devices does not match.
    """
    names = [group.name for group in job.groups]
    held = held_devices(world, staying=later)
    chosen = read_devices(devices) if devices else None
    seats: list[Seat] = []
    for group_name, count, node_name in place:
        node = node_of(world, node_name)
        if group_name not in names:
            raise ValueError(f"{job.name!r} has no group {group_name!r}")
        group = names.index(group_name)
        for _ in range(count):
            rank = sum(seat.group == group for seat in seats)
            bare = Seat(group, rank, node_name)
            request = job.groups[group].request
            seat = _seated(node, bare, request, (held, chosen))
            if seat is None:
                raise ValueError(f"{job.name!r} does not fit on {node_name}")
            held.add(seat, request)
            seats.append(seat)
    if not later:
        _check_node_room(world, job, seats)
    return tuple(seats)


def _seated(
    node: Node,
    bare: Seat,
    request: Request,
    devices: tuple[Devices, list[tuple[str, int, int | None, int | None]] | None],
) -> Seat | None:
    """The seat with devices, or None. devices: those held, and those to choose from."""
    held, chosen = devices
    free = list(_free(node, request, held, named=chosen is not None))
    if chosen is not None:
        named = [own[1:] for own in chosen if own[0] == node.name]
        free = [own for own in free if own in named]
    if request.kind == Access.NONE:
        return bare
    if request.kind == Access.FRACTION:
        return replace(bare, gpus=(free[0][0],)) if free else None
    if len(free) < request.count:
        return None
    mine = free[: request.count]
    if request.kind == Access.SLICE:
        return replace(bare, instances=tuple((gpu, start or 0) for gpu, start, _ in mine))
    if request.kind == Access.SHARE:
        return replace(bare, slots=tuple((gpu, replica or 0) for gpu, _, replica in mine))
    return replace(bare, gpus=tuple(gpu for gpu, _, _ in mine))


def _free(node: Node, request: Request, held: Devices, *, named: bool) -> Iterator[Device]:
    """Devices that the request could have, lowest first.

    named: the line says which devices, so that faulty ones may be among them.
    """
    kinds = {
        Access.WHOLE: _free_whole,
        Access.SLICE: _free_slices,
        Access.SHARE: _free_shares,
        Access.FRACTION: _free_fractions,
    }
    if request.kind not in kinds:
        return
    for number, gpu in enumerate(node.gpus):
        if named or not gpu.faulty:
            for device in kinds[request.kind](node, number, request, held):
                healthy = device[1] is None or device[1] not in gpu.faulty_starts
                if named or healthy:
                    yield device


def _free_whole(node: Node, number: int, request: Request, held: Devices) -> Iterator[Device]:
    del request
    if node.gpus[number].mode == GpuMode.EXCLUSIVE and (node.name, number) not in held.gpus:
        yield number, None, None


def _free_slices(node: Node, number: int, request: Request, held: Devices) -> Iterator[Device]:
    for start, profile in node.gpus[number].layout:
        if profile == request.profile and (node.name, number, start) not in held.instances:
            yield number, start, None


def _free_shares(node: Node, number: int, request: Request, held: Devices) -> Iterator[Device]:
    del request
    mode, replicas, _ = node.gpus[number].sharing
    if mode in {GpuMode.TIME_SLICING, GpuMode.MPS}:
        for replica in range(replicas):
            if (node.name, number, replica) not in held.slots:
                yield number, None, replica


def _free_fractions(node: Node, number: int, request: Request, held: Devices) -> Iterator[Device]:
    used = held.milli.get((node.name, number), 0)
    if node.gpus[number].mode == GpuMode.HAMI and used + request.gpu_milli <= WHOLE_MILLI:
        yield number, None, None


def _check_node_room(world: World, job: Job, seats: Sequence[Seat]) -> None:
    """Raise ValueError if a node has less CPU, memory or cards than its jobs hold together."""
    holders = [(other, other.seats) for other in world.placed() if other is not job]
    for name in {seat.node for seat in seats}:
        node = world.nodes[name]
        for kind in ("cpu_milli", "memory_mib", "nics"):
            limit = getattr(node, kind)
            used = sum(
                getattr(own, kind) * sum(seat.node == name for seat in own_seats)
                for own, own_seats in [*holders, (job, seats)]
            )
            if limit is not None and used > limit:
                raise ValueError(f"{job.name!r} does not fit on {name}")
