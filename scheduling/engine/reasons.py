"""Why a job is held: the first thing that is true of it, with its numbers."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fit import member_slots
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import Place, place_gang
from scheduling.engine.jobs import Access, Group, JobSpec, Level, PendingJob, Request
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.locality import Wish
from scheduling.engine.plan import Hold, Number, Reason
from scheduling.engine.snapshot import Snapshot

Why = tuple[Reason, tuple[tuple[str, Number], ...]]


class Doctor:
    """Finds out why jobs do not fit, on what-if ledgers that are made once and on demand."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def empty(self) -> Ledger:
        """The cluster without jobs, every node open and every device repaired."""
        snapshot = self._snapshot
        return Ledger(
            Fleet(
                replace(
                    snapshot,
                    free=snapshot.capacity,
                    node_open=np.ones_like(snapshot.node_open),
                    gpu_open=np.ones_like(snapshot.gpu_open),
                    gpu_free_milli=np.full_like(snapshot.gpu_free_milli, WHOLE_MILLI),
                    gpu_free_memory_mib=snapshot.gpu_memory_mib,
                )
            )
        )

    @cached_property
    def repaired(self) -> Fleet:
        """The cluster as it is, with every device repaired."""
        return Fleet(replace(self._snapshot, gpu_open=np.ones_like(self._snapshot.gpu_open)))

    def impossible(self, job: PendingJob, now: Ledger) -> Why | None:
        """Why no state of this cluster could ever hold `job`, or None."""
        fleet = self.empty.fleet
        suitable = fleet.suitable(job.flavors, job.service_class)
        if job.flavors and not suitable.any():
            return Reason.NO_FLAVOR, ()
        if job.gpu_memory_mib:
            largest = int(self._snapshot.gpu_memory_mib.max(initial=0))
            if largest < job.gpu_memory_mib:
                numbers = ("need", job.gpu_memory_mib), ("largest", largest)
                return Reason.MEMORY_TOO_SMALL, numbers
        if place_gang(self.empty, job, Place(suitable, wish_of(job))) is not None:
            return None
        return Reason.NEVER_FITS, self._largest(job, now, suitable)

    def _largest(
        self, job: PendingJob, now: Ledger, suitable: BoolArray
    ) -> tuple[tuple[str, Number], ...]:
        open_now = suitable & self._snapshot.node_open
        for group in job.groups:
            if not (member_slots(self.empty, job, group.request) * suitable).any():
                return (
                    ("largest", _largest_member(self.empty, job, group, allowed=suitable)),
                    ("now", _largest_member(now, job, group, allowed=open_now)),
                    ("level", Level.NODE.name.lower()),
                )
        largest: list[tuple[str, Number]] = [
            ("largest", most_members(self.empty, job, suitable)),
            ("now", most_members(now, job, open_now)),
        ]
        if job.required is not None:
            largest.append(("level", job.required.name.lower()))
        return tuple(largest)

    def no_room(self, job: PendingJob, ledger: Ledger, allowed: BoolArray) -> Why:
        """Why `job`, which an empty cluster could hold, does not fit into what is free."""
        fits = most_members(ledger, job, allowed)
        if self._fits_repaired(job, ledger, allowed):
            return Reason.UNHEALTHY, (("missing", job.min_members - fits),)
        pooled = pooled_members(ledger, job, allowed)
        if pooled < job.min_members:
            return Reason.NO_ROOM, (("missing", job.min_members - pooled),)
        level = Level.NODE if job.required is None else job.required
        numbers = ("free", pooled), ("largest", fits), ("level", level.name.lower())
        return Reason.FRAGMENTED, numbers

    def _fits_repaired(self, job: PendingJob, ledger: Ledger, allowed: BoolArray) -> bool:
        if self._snapshot.gpu_open.all():
            return False
        repaired = ledger.fork(self.repaired)
        return place_gang(repaired, job, Place(allowed, wish_of(job))) is not None


def wish_of(job: JobSpec) -> Wish:
    """What the job asks for of closeness."""
    preferred = Level.NODE if job.preferred is None else job.preferred
    return Wish(preferred, job.required)


def waits_by_itself(job: PendingJob, at: int) -> Why | None:
    """Why `job` is not even looked at, whatever room there is; None if it is."""
    if job.held:
        return Reason.ON_HOLD, ()
    if job.not_before is not None and job.not_before > at:
        return Reason.NOT_BEFORE, (("at", job.not_before),)
    if job.gates:
        return Reason.FOREIGN_GATE, (("gate", job.gates[0]),)
    return None


def most_members(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> int:
    """The most members of the gang's minimum in one domain of its required level."""
    if job.required is None:
        return _members_inside(ledger, job, allowed)
    domain = ledger.fleet.domains(job.required)
    return max(
        (_members_inside(ledger, job, allowed & (domain == own)) for own in np.unique(domain)),
        default=0,
    )


def _members_inside(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> int:
    what_if, total = ledger.fork(), 0
    for index, group in enumerate(job.groups):
        alone = replace(job, groups=(group,), min_total=0, required=None)
        slots = int(np.where(allowed, member_slots(what_if, alone, group.request), 0).sum())
        count = min(slots, group.max_member, job.min_members - total)
        only = replace(alone, groups=(replace(group, min_member=count, max_member=count),))
        if len(job.groups) > index + 1 and count:
            what_if.take(only, place_gang(what_if, only, Place(allowed)) or ())
        total += count
    return total


def pooled_members(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> int:
    """How many members what is free in all would do for, wherever it lies."""
    free = ledger.free[:, allowed].sum(axis=1, dtype=np.int64)
    gpus = int(ledger.whole[allowed].sum())
    total = 0
    for group in job.groups:
        vector = ledger.fleet.vector(group.request)
        count = min(group.max_member, job.min_members - total)
        if vector is None:
            continue
        count = min([count, *_shares(free, vector)])
        if group.request.kind == Access.WHOLE:
            count = min(count, gpus // group.request.count)
            gpus -= count * group.request.count
        free = free - count * vector
        total += count
    return total


def _shares(free: IntArray, vector: IntArray) -> list[int]:
    return [int(free[row] // vector[row]) for row in np.flatnonzero(vector)]


def _largest_member(ledger: Ledger, job: JobSpec, group: Group, *, allowed: BoolArray) -> int:
    """The most GPUs that one member of `group` could have on one node."""
    one = replace(group.request, count=1) if group.request.count else Request()
    slots = np.where(allowed, member_slots(ledger, job, one), 0)
    return int(slots.max(initial=0)) if group.request.count else 0


def hold(job: PendingJob, why: Why) -> Hold:
    """The verdict that lets `job` wait because of `why`."""
    reason, numbers = why
    return Hold(job.id, reason, numbers)
