"""What the room on nodes is worth to the jobs that are expected.

Room is worth what is expected to come and could use it, less what would lie idle whatever came.
Of each shape, weighed by how often it comes and how scarce the room for it has become:

- waste: free GPU milli of a node that such a member could not use, as in `fragmentation`, but with
  memory in view as well as CPU;
- use: GPU milli that as many such members as fit would take. A node with many free GPUs and CPU
  for one member is worth one member. Members without GPUs count by their CPU, which keeps cores
  for them where they cost no GPU.

All sums are of whole numbers, so they are the same on every machine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fleet import Fleet
from scheduling.engine.fragmentation import Shape, shape_of, with_member
from scheduling.engine.jobs import JobSpec, Request
from scheduling.engine.ledger import Ledger

WASTE: Final = 500
USE: Final = 100
"""A GPU milli wasted counts as five that could be used: found by search, see docs/packing.md."""
CORES: Final = 1
"""A CPU milli that members without GPUs could use counts as a hundredth of a GPU milli."""
PARTS: Final = 1_000_000
"""All weights together."""
SPARE_CPU: Final = WASTE * PARTS // 1280
IDLE_CPU: Final = WASTE * PARTS // 6400
"""CPU milli left: 1,280 are worth a GPU milli on the node that takes a member with GPUs; one
without goes where least is left, at a fifth of that."""
LEAST_SUPPLY: Final = 2_000
WHOLE: Final = 1000
ENOUGH: Final = 2**30
MOST: Final = 2**24
"""Of CPU milli or MiB that one node is looked at with: 16,000 cores, 16 TiB."""

Ask = tuple[Shape, int]
"""A shape, and MiB of memory."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free GPUs of B nodes as each kind of member sees them, (B, kinds); total: (B,) GPU milli.

    small: milli on GPUs that are too small. copies: members of one GPU that GPUs allow.
    """

    small: IntArray
    copies: IntArray
    total: IntArray


class Kinds:
    """Members that differ in CPU and memory only are of one kind: GPUs, milli, models."""

    def __init__(self, asks: Sequence[Ask], models: Sequence[str]) -> None:
        of_ask = [(shape.gpus, shape.milli, shape.models) for shape, _ in asks]
        kinds = sorted(set(of_ask))
        self.index = np.array([kinds.index(kind) for kind in of_ask], dtype=np.int64)
        self.gpus = np.array([gpus for gpus, _, _ in kinds], dtype=np.int64)
        self.milli = np.array([milli for _, milli, _ in kinds], dtype=np.int64)
        self.may: BoolArray = np.array(
            [[not named or model in named for _, _, named in kinds] for model in models],
            dtype=np.bool_,
        ).reshape(len(models), len(kinds))
        left = np.arange(WHOLE + 1)[:, None]
        self._small = np.where(left < self.milli, left, 0)
        self._copies = np.where(self.milli > 0, left // np.maximum(self.milli, 1), 0)

    def room(self, gpus: IntArray) -> Room:
        """gpus: (B, most) milli left, 0 where there is none."""
        return Room(
            self._small[gpus].sum(axis=1),
            self._copies[gpus].sum(axis=1),
            gpus.sum(axis=1),
        )

    def after(self, room: Room, old: IntArray, new: IntArray, taken: IntArray) -> Room:
        """The room of one node (B = 1) after each of T changes of `taken` GPUs from old to new."""
        times = taken[:, None]
        return Room(
            room.small + times * (self._small[new] - self._small[old]),
            room.copies + times * (self._copies[new] - self._copies[old]),
            room.total + taken * (new - old),
        )


class Worth:
    """The worth of nodes to what is expected. `weigh` it before asking."""

    def __init__(self, expected: Sequence[tuple[Ask, int]], models: Sequence[str]) -> None:
        asks = [ask for ask, _ in expected]
        self.kinds = Kinds(asks, models)
        self._kind = self.kinds.index
        self._count = [count for _, count in expected]
        self._cpu = np.array([shape.cpu_milli for shape, _ in asks], dtype=np.int64)
        self._memory = np.array([memory for _, memory in asks], dtype=np.int64)
        self._gpus = self.kinds.gpus[self._kind]
        self._size = self._gpus * self.kinds.milli[self._kind]
        self._waste = np.zeros(len(asks))
        self._use = np.zeros(len(asks))

    def allowed(self, cpu: IntArray, memory: IntArray) -> IntArray:
        """(B, asks) how many members CPU and memory allow."""
        return np.minimum(_copies_of(self._cpu, cpu), _copies_of(self._memory, memory))

    def weigh(self, model: IntArray, room: Room, allowed: IntArray) -> None:
        """Weigh what is expected, on all nodes as they are.

        A shape counts by how often it is asked for, times all that is free over what of it this
        shape could use.
        """
        supply = (self._copies(model, room, allowed) * self._size).sum(axis=0).tolist()
        free = int(room.total.sum())
        scale = [
            count * PARTS * free // max(LEAST_SUPPLY, own) if size else count * PARTS
            for count, own, size in zip(self._count, supply, self._size.tolist(), strict=True)
        ]
        weights = np.array([PARTS * own // max(1, sum(scale)) for own in scale], dtype=np.int64)
        self._waste = np.where(self._gpus > 0, weights * WASTE, 0).astype(np.float64)
        per_copy = np.where(self._gpus > 0, USE * self._size, CORES * self._cpu)
        self._use = (weights * per_copy).astype(np.float64)

    def of(self, model: IntArray, room: Room, allowed: IntArray) -> IntArray:
        """(B,) worth of nodes of these models."""
        copies = self._copies(model, room, allowed)
        idle = np.where(copies > 0, room.small[:, self._kind], room.total[:, None])
        # Products of whole numbers that stay far below 2**53, so floating point is exact.
        worth: IntArray = (copies @ self._use - idle @ self._waste).astype(np.int64)
        return worth

    def _copies(self, model: IntArray, room: Room, allowed: IntArray) -> IntArray:
        """(B, asks) members that fit on each node if it took nothing else."""
        kinds = self.kinds
        by_gpus = np.where(kinds.gpus > 0, room.copies // np.maximum(kinds.gpus, 1), ENOUGH)
        by_gpus = np.where(kinds.may[model], by_gpus, 0)
        copies: IntArray = np.minimum(by_gpus[:, self._kind], allowed)
        return copies


def _copies_of(each: IntArray, left: IntArray) -> IntArray:
    """(B, asks) how many of `each` are in what is left; ENOUGH of nothing."""
    # Divisions of 32 bits take half as long, and no node has more than that.
    divisor = np.maximum(each, 1).astype(np.int32)
    whole = np.minimum(left, MOST).astype(np.int32)[:, None] // divisor
    copies: IntArray = np.where(each > 0, whole, ENOUGH)
    return copies


def spare(cpu: IntArray, gpus: IntArray) -> IntArray:
    """What CPU left on a node adds once it took a member. gpus: of the member."""
    left = np.minimum(cpu, MOST)
    worth: IntArray = np.where(gpus > 0, SPARE_CPU * left, -IDLE_CPU * left)
    return worth


def expected_of(asks: Iterable[Ask]) -> list[tuple[Ask, int]]:
    """What was asked for, with how often."""
    counts: dict[Ask, int] = {}
    for ask in asks:
        counts[ask] = counts.get(ask, 0) + 1
    return sorted(counts.items())


class Expectation:
    """What the jobs that a snapshot knows ask for, and what room is worth to more of their kind.

    How scarce room is, is reckoned once, by what was free at the start of the cycle.
    """

    def __init__(self, fleet: Fleet, jobs: Iterable[JobSpec]) -> None:
        snapshot = fleet.snapshot
        self._model = snapshot.node_flavor
        self._column = np.arange(len(snapshot.gpu_node)) - fleet.first_gpu[snapshot.gpu_node]
        self._size = fleet.nodes, int(np.diff(fleet.first_gpu).max(initial=0))
        self._worth = Worth(expected_of(_asks(jobs, snapshot.flavors)), list(snapshot.flavors))
        start = Ledger(fleet)
        cpu, memory = _node_resources(start)
        room = self._worth.kinds.room(self._gpus(start))
        self._worth.weigh(self._model, room, self._worth.allowed(cpu, memory))

    def loss(self, ledger: Ledger, request: Request) -> IntArray:
        """(N,) worth that a node would lose by taking one member, from 0 for the best."""
        worth, gpus = self._worth, self._gpus(ledger)
        cpu, memory = _node_resources(ledger)
        now = worth.of(self._model, worth.kinds.room(gpus), worth.allowed(cpu, memory))
        cpu, memory = cpu - request.cpu_milli, memory - request.memory_mib
        room = worth.kinds.room(with_member(gpus, request))
        then = worth.of(self._model, room, worth.allowed(cpu, memory))
        loss: IntArray = now - then - spare(cpu, np.ones_like(cpu))
        return loss - int(loss.min(initial=0))

    def _gpus(self, ledger: Ledger) -> IntArray:
        """(N, most) milli left of the GPUs that are handed out whole or in parts."""
        gpus = np.zeros(self._size, dtype=np.int64)
        usable = ledger.fleet.exclusive | ledger.fleet.hami
        gpus[ledger.fleet.snapshot.gpu_node, self._column] = np.where(usable, ledger.gpu_milli, 0)
        return gpus


def _node_resources(ledger: Ledger) -> tuple[IntArray, IntArray]:
    """(N,) CPU milli and MiB of memory left; MOST of what nobody counts."""
    if not len(ledger.free):
        unlimited = np.full(ledger.fleet.nodes, MOST, dtype=np.int64)
        return unlimited, unlimited
    return np.clip(ledger.free[0], 0, MOST), np.clip(ledger.free[1], 0, MOST)


def _asks(jobs: Iterable[JobSpec], flavors: Sequence[str]) -> Iterable[Ask]:
    for job in jobs:
        for group in job.groups:
            shape = shape_of(job, group.request, flavors)
            if shape is not None:
                yield from [(shape, group.request.memory_mib)] * group.min_member
