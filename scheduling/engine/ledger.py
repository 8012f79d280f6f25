"""What is still free while a cycle goes on.

A what-if is a fork: keep it and it has happened, drop it and it has not. Nothing is undone.
"""

from collections.abc import Iterable
from typing import Self

from scheduling.engine.arrays import IntArray, read_only
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, Request

WHOLE_MILLI = 1000


class Ledger:
    """Free amounts of nodes and devices, forked for every what-if."""

    __slots__ = ("_free", "_gpu_memory", "_gpu_milli", "_mig", "_slots", "_whole", "fleet")

    def __init__(self, fleet: Fleet) -> None:
        snapshot = fleet.snapshot
        self.fleet = fleet
        self._free = snapshot.free.copy()
        self._gpu_milli = snapshot.gpu_free_milli.copy()
        self._gpu_memory = snapshot.gpu_free_memory_mib.copy()
        self._mig = snapshot.mig_free.copy()
        self._slots = snapshot.slot_free.copy()
        self._whole = whole_free(fleet, self._gpu_milli)

    @property
    def free(self) -> IntArray:
        """(R, N) units of node resources, read-only."""
        return read_only(self._free)

    @property
    def whole(self) -> IntArray:
        """(N,) whole free GPUs that may be handed out, read-only."""
        return read_only(self._whole)

    @property
    def gpu_milli(self) -> IntArray:
        """(G,) thousandths free, read-only."""
        return read_only(self._gpu_milli)

    def fork(self, fleet: Fleet | None = None) -> Self:
        """A copy that goes its own way; on another `fleet`, one with repaired devices say."""
        twin = object.__new__(type(self))
        twin.fleet = fleet or self.fleet
        twin._free = self._free.copy()
        twin._gpu_milli = self._gpu_milli.copy()
        twin._gpu_memory = self._gpu_memory.copy()
        twin._mig = self._mig.copy()
        twin._slots = self._slots.copy()
        twin._whole = self._whole.copy() if fleet is None else whole_free(fleet, self._gpu_milli)
        return twin

    def take(self, job: JobSpec, members: Iterable[PlacedMember]) -> None:
        """Give members what they ask for. Raises AssertionError if anything of it is not free."""
        for member in members:
            self._move(job.groups[member.group].request, member, -1)

    def release(self, job: JobSpec, members: Iterable[PlacedMember]) -> None:
        """Take back what members hold."""
        for member in members:
            self._move(job.groups[member.group].request, member, 1)

    def _move(self, request: Request, member: PlacedMember, sign: int) -> None:
        vector = self.fleet.vector(request)
        if vector is not None:
            self._free[:, member.node] += sign * vector
        milli = request.gpu_milli if request.kind == Access.FRACTION else WHOLE_MILLI
        for gpu in member.gpus:
            before = int(self._gpu_milli[gpu])
            self._gpu_milli[gpu] = after = before + sign * milli
            if self.fleet.exclusive[gpu]:
                self._whole[member.node] += (after == WHOLE_MILLI) - (before == WHOLE_MILLI)
            if after < 0:
                raise AssertionError("took more than was free")
        if sign < 0 and vector is not None and (self._free[:, member.node] < 0).any():
            raise AssertionError("took more than was free")


def whole_free(fleet: Fleet, gpu_milli: IntArray) -> IntArray:
    """(N,) whole free GPUs that may be handed out. gpu_milli: (G,) thousandths free."""
    return fleet.per_node(fleet.exclusive & (gpu_milli == WHOLE_MILLI))
