"""What is still free while a cycle goes on.

A what-if is a fork: keep it and it has happened, drop it and it has not. Nothing is undone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray, read_only
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import (
    Access,
    JobSpec,
    PlacedMember,
    Request,
    RunningJob,
    ServiceClass,
)

WHOLE_MILLI = 1000


class Ledger:
    """Free amounts of nodes and devices, forked for every what-if. All arrays are read-only views.

    free: (R, N) units of node resources. whole: (N,) whole free GPUs that may be handed out.
    gpu_milli, gpu_memory: (G,) thousandths and MiB free. crowd, alone: (N,) members on each node,
    and those of them that bear nobody beside them.
    """

    __slots__ = (
        "_alone",
        "_crowd",
        "_free",
        "_gpu_memory",
        "_gpu_milli",
        "_mig",
        "_shares_memory",
        "_slots",
        "_whole",
        "alone",
        "crowd",
        "fleet",
        "free",
        "gpu_memory",
        "gpu_milli",
        "whole",
    )

    def __init__(self, fleet: Fleet) -> None:
        snapshot = fleet.snapshot
        self.fleet = fleet
        self._free = snapshot.free.copy()
        self._gpu_milli = snapshot.gpu_free_milli.copy()
        self._gpu_memory = snapshot.gpu_free_memory_mib
        self._shares_memory = True
        self._mig = snapshot.mig_free.copy()
        self._slots = snapshot.slot_free.copy()
        self._whole = _whole_free(fleet, self._gpu_milli)
        self._crowd = _members_on(fleet, snapshot.running)
        critical = [job for job in snapshot.running if _bears_nobody(job)]
        self._alone = _members_on(fleet, critical)
        self._show()

    def _show(self) -> None:
        """Let others see the arrays, which from now on are only changed in place."""
        self.free = read_only(self._free)
        self.whole = read_only(self._whole)
        self.gpu_milli = read_only(self._gpu_milli)
        self.gpu_memory = read_only(self._gpu_memory)
        self.crowd = read_only(self._crowd)
        self.alone = read_only(self._alone)

    @property
    def instances(self) -> BoolArray:
        """(I,) MIG instances that are free and may be handed out."""
        return self._mig & self.fleet.instances

    @property
    def slots(self) -> BoolArray:
        """(S,) share slots that are free and may be handed out."""
        return self._slots & self.fleet.slots

    def whole_gpus(self) -> BoolArray:
        """(G,) whole free GPUs that may be handed out."""
        whole: BoolArray = self.fleet.exclusive & (self._gpu_milli == WHOLE_MILLI)
        return whole

    def amounts(self) -> IntArray:
        """(K, N) free of each kind of room (see `Fleet`)."""
        fleet, snapshot = self.fleet, self.fleet.snapshot
        amounts = np.zeros((fleet.kinds, fleet.nodes), dtype=np.int64)
        amounts[: len(self._free)] = self._free
        amounts[fleet.whole_row] = self._whole
        if len(self._mig):
            rows = np.flatnonzero(self.instances)
            node = snapshot.gpu_node[snapshot.mig_gpu[rows]]
            kind = fleet.whole_row + 1 + snapshot.mig_profile[rows]
            np.add.at(amounts, (kind, node), 1)
        if len(self._slots):
            node = snapshot.gpu_node[snapshot.slot_gpu[self.slots]]
            amounts[fleet.slot_row] = np.bincount(node, minlength=fleet.nodes)
        if fleet.hami.any():
            milli = np.where(fleet.hami, self._gpu_milli, 0)
            amounts[fleet.milli_row] = fleet.sum_per_node(milli, snapshot.gpu_node)
        return amounts

    def fork(self, fleet: Fleet | None = None) -> Self:
        """A copy that goes its own way; on another `fleet`, one with repaired devices say."""
        twin = object.__new__(type(self))
        twin.fleet = fleet or self.fleet
        twin._free = self._free.copy()
        twin._gpu_milli = self._gpu_milli.copy()
        twin._gpu_memory = self._gpu_memory  # seldom written: copied when somebody does
        twin._shares_memory = self._shares_memory = True
        twin._mig = self._mig.copy()
        twin._slots = self._slots.copy()
        twin._crowd = self._crowd.copy()
        twin._alone = self._alone.copy()
        twin._whole = self._whole.copy() if fleet is None else _whole_free(fleet, self._gpu_milli)
        twin._show()
        return twin

    def cap(self, other: Self) -> None:
        """Let nothing be free that is not free in `other` as well."""
        np.minimum(self._free, other.free, out=self._free)
        np.minimum(self._gpu_milli, other.gpu_milli, out=self._gpu_milli)
        np.minimum(self._gpu_memory, other.gpu_memory, out=self._own_gpu_memory())
        self._mig &= other.instances
        self._slots &= other.slots
        self._whole[:] = _whole_free(self.fleet, self._gpu_milli)

    def _own_gpu_memory(self) -> IntArray:
        """The memory of the GPUs, to write to: shared with no other ledger from now on."""
        if self._shares_memory:
            self._gpu_memory = self._gpu_memory.copy()
            self.gpu_memory = read_only(self._gpu_memory)
            self._shares_memory = False
        return self._gpu_memory

    def give_back(self, freed: "Freed") -> None:
        """Take back what many members hold, at once."""
        for row, amounts in enumerate(freed.need):
            np.add.at(self._free[row], freed.node, amounts)
        np.subtract.at(self._crowd, freed.node, 1)
        np.subtract.at(self._alone, freed.node, freed.alone)
        np.add.at(self._gpu_milli, freed.gpu, freed.gpu_milli)
        if freed.gpu_memory_mib.any():
            np.add.at(self._own_gpu_memory(), freed.gpu, freed.gpu_memory_mib)
        self._mig[freed.instance] = True
        self._slots[freed.slot] = True
        self._whole[:] = _whole_free(self.fleet, self._gpu_milli)

    def has(self, job: JobSpec, members: Iterable[PlacedMember]) -> bool:
        """Whether all that members ask for is free."""
        try:
            self.fork().take(job, members)
        except AssertionError:
            return False
        return True

    def take(self, job: JobSpec, members: Iterable[PlacedMember], *, seated: bool = True) -> None:
        """Give members what they ask for. Raises AssertionError if anything of it is not free.

        seated: whether they are company to others; to the rest of their own gang they are none.
        """
        for member in members:
            self._move(job.groups[member.group].request, member, -1)
            if seated:
                self._seat(job, member.node, 1)

    def release(self, job: JobSpec, members: Iterable[PlacedMember]) -> None:
        """Take back what members hold."""
        for member in members:
            self._move(job.groups[member.group].request, member, 1)
            self._seat(job, member.node, -1)

    def ignore(self, job: JobSpec, members: Iterable[PlacedMember]) -> None:
        """Count members that hold what they have as no company: it is asked for their own gang."""
        for member in members:
            self._seat(job, member.node, -1)

    def withhold(self, gpu: int) -> None:
        """Let nothing of a GPU be free: it is about to be cut anew."""
        self._gpu_milli[gpu] = 0
        self._mig[self.fleet.snapshot.mig_gpu == gpu] = False
        self._whole[:] = _whole_free(self.fleet, self._gpu_milli)

    def _seat(self, job: JobSpec, node: int, sign: int) -> None:
        self._crowd[node] += sign
        if _bears_nobody(job):
            self._alone[node] += sign

    def _move(self, request: Request, member: PlacedMember, sign: int) -> None:
        for resource, amount in self.fleet.amounts(request) or ():
            self._free[resource, member.node] += sign * amount
            if self._free[resource, member.node] < 0 and sign < 0:
                raise AssertionError("took more than was free")
        milli = request.gpu_milli if request.kind == Access.FRACTION else WHOLE_MILLI
        for gpu in member.gpus:
            before = int(self._gpu_milli[gpu])
            self._gpu_milli[gpu] = after = before + sign * milli
            if request.kind == Access.FRACTION:
                self._own_gpu_memory()[gpu] += sign * request.gpu_memory_mib
            if self.fleet.exclusive[gpu]:
                self._whole[member.node] += (after == WHOLE_MILLI) - (before == WHOLE_MILLI)
            if after < 0:
                raise AssertionError("took more than was free")
        for row in member.instances:
            _flip(self._mig, row, free=sign > 0)
        for row in member.slots:
            _flip(self._slots, row, free=sign > 0)
            gpu = self.fleet.snapshot.slot_gpu[row]
            self._own_gpu_memory()[gpu] += sign * request.gpu_memory_mib


@dataclass(frozen=True, slots=True)
class Freed:
    """What M members hold on nodes, and on any number of devices."""

    node: IntArray  # (M,)
    need: IntArray  # (R, M)
    alone: IntArray  # (M,) 1 for a member that bears nobody beside it
    gpu: IntArray
    gpu_milli: IntArray
    gpu_memory_mib: IntArray
    instance: IntArray
    slot: IntArray


def _bears_nobody(job: JobSpec) -> bool:
    return job.service_class == ServiceClass.LATENCY_CRITICAL


def _members_on(fleet: Fleet, jobs: Iterable[RunningJob]) -> IntArray:
    """(N,) members of the jobs on each node."""
    nodes = [member.node for job in jobs for member in job.members]
    return np.bincount(np.array(nodes, dtype=np.int64), minlength=fleet.nodes)


def _flip(flags: BoolArray, row: int, *, free: bool) -> None:
    if bool(flags[row]) == free:
        raise AssertionError("took more than was free, or gave it back twice")
    flags[row] = free


def _whole_free(fleet: Fleet, gpu_milli: IntArray) -> IntArray:
    """(N,) whole free GPUs that may be handed out. gpu_milli: (G,) thousandths free."""
    return fleet.per_node(fleet.exclusive & (gpu_milli == WHOLE_MILLI))
