"""What will be free later: who holds what now, and until when at the latest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from scheduling.engine.arrays import NEVER, IntArray
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import (
    Access,
    JobSpec,
    PlacedMember,
    Request,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.ledger import WHOLE_MILLI, Freed, Ledger
from scheduling.engine.policy import EndEstimate, Policy

MOST_TABLES: Final = 16


@dataclass(frozen=True, slots=True)
class Stay:
    """Members of one job that hold their devices until `end` at the latest."""

    job: JobSpec
    members: tuple[PlacedMember, ...]
    end: int


def duration_of(job: JobSpec, policy: Policy) -> int:
    """The longest that `job` may run in seconds, NEVER if nothing ends it."""
    if job.walltime_seconds is not None:
        return job.walltime_seconds
    return NEVER if policy.default_walltime is None else policy.default_walltime


def grace_of(job: JobSpec, policy: Policy) -> int:
    """How long `job` may take to be gone once it is told to stop."""
    if job.grace_seconds is None:
        return policy.max_grace
    return min(job.grace_seconds, policy.max_grace)


def end_of(job: RunningJob, policy: Policy, at: int) -> int:
    """When a running job ends at the latest, always after `at`.

    One that runs past its limit is counted as ending one grace later, again and again.
    """
    end = job.ends_at
    if policy.end_estimate == EndEstimate.PROGRESS and job.expected_end_at is not None:
        end = min(end, max(job.expected_end_at, at + 1))
    if end > at:
        return end
    grace = max(1, grace_of(job, policy))
    return end + grace * ((at - end) // grace + 1)


class Horizon:
    """Who stays until when, and the ledger at any later instant.

    Stays are turned into arrays once: those known from the start together, later ones as they come.
    """

    def __init__(self, fleet: Fleet, stays: Iterable[Stay]) -> None:
        self._fleet = fleet
        self._known: Iterable[Stay] | None = stays
        self._added: list[Stay] = []
        self._tables: tuple[_Table, ...] = ()
        self._tabulated = 0

    def add(self, job: JobSpec, members: tuple[PlacedMember, ...], end: int) -> None:
        self._added.append(Stay(job, members, end))

    @property
    def _stays(self) -> list[Stay]:
        """All stays; those known from the start are looked at when somebody asks, if ever."""
        if self._known is not None:
            self._added, self._known = [*self._known, *self._added], None
        return self._added

    def drop(self, job_id: int, members: Sequence[PlacedMember] | None = None) -> None:
        """Forget all members of a job, or only `members`: they are on their way out."""
        kept = []
        for stay in self._stays:
            left = stay.members if stay.job.id != job_id else ()
            if stay.job.id == job_id and members is not None:
                left = tuple(member for member in stay.members if member not in members)
            if left:
                kept.append(stay if len(left) == len(stay.members) else replace(stay, members=left))
        self._added, self._tables, self._tabulated = kept, (), 0

    def fork(self) -> "Horizon":
        """A copy that goes its own way."""
        self._tabulate()
        twin = Horizon(self._fleet, list(self._stays))
        twin._tables, twin._tabulated = self._tables, self._tabulated
        return twin

    def endless(self) -> list[Stay]:
        """Stays that nothing ends."""
        return [stay for stay in self._stays if stay.end == NEVER]

    def by_end(self) -> list[Stay]:
        """Stays that end, the first to end first."""
        return sorted((stay for stay in self._stays if stay.end != NEVER), key=lambda own: own.end)

    def ends(self) -> list[int]:
        """The instants at which something comes free, each once, in order."""
        ends = {stay.end for stay in self._stays if stay.end != NEVER}
        return sorted(ends)

    def at(self, ledger: Ledger, instant: int) -> Ledger:
        """A fork of `ledger` in which all is given back that ends by `instant`."""
        self._tabulate()
        later = ledger.fork()
        for table in self._tables:
            later.give_back(table.freed(instant))
        return later

    def _tabulate(self) -> None:
        fresh = self._stays[self._tabulated :]
        if not fresh:
            return
        tables = (*self._tables, tabulated(self._fleet, fresh))
        if len(tables) > MOST_TABLES:
            tables = (tables[0], _joined(tables[1:]))
        self._tables, self._tabulated = tables, len(self._stays)


@dataclass(frozen=True, slots=True)
class _Table:
    """Stays as arrays: a column per member, per GPU, per MIG instance and per share slot.

    The first row of each is when the stay ends.
    """

    rows: IntArray  # end, node, 1 for a member that bears nobody beside it
    needs: IntArray  # (R, members)
    gpus: IntArray  # end, GPU, thousandths, MiB
    instances: IntArray  # end, row
    slots: IntArray  # end, row

    def freed(self, instant: int) -> Freed:
        """What is given back by `instant`."""
        own = self.rows[0] <= instant
        device = self.gpus[0] <= instant
        return Freed(
            node=self.rows[1, own],
            need=self.needs[:, own],
            alone=self.rows[2, own],
            gpu=self.gpus[1, device],
            gpu_milli=self.gpus[2, device],
            gpu_memory_mib=self.gpus[3, device],
            instance=_ended(self.instances, instant),
            slot=_ended(self.slots, instant),
        )


def tabulated(fleet: Fleet, stays: Sequence[Stay]) -> _Table:
    """The stays as arrays."""
    members = [member for stay in stays for member in stay.members]
    each = np.array([len(stay.members) for stay in stays], dtype=np.int64)
    end, alone = (
        np.repeat(np.array(column, dtype=np.int64), each)
        for column in ([stay.end for stay in stays], [_is_critical(stay.job) for stay in stays])
    )
    node = np.array([member.node for member in members], dtype=np.int64)
    kinds, kind = _requests(fleet, stays)
    slots, slot_owner = _flat([member.slots for member in members])
    slot_gpu = fleet.snapshot.slot_gpu[slots]
    gpus, gpu_owner = _flat([member.gpus for member in members])
    instances, instance_owner = _flat([member.instances for member in members])
    owner = np.concatenate([gpu_owner, slot_owner])
    is_slot = np.arange(len(owner)) >= len(gpus)
    milli, memory, slot_memory = kinds.held[kind[owner]].T
    return _Table(
        rows=np.stack([end, node, alone]),
        needs=kinds.needs[kind].T,
        gpus=np.stack(
            [
                end[owner],
                np.concatenate([gpus, slot_gpu]),
                np.where(is_slot, 0, milli),
                np.where(is_slot, slot_memory, memory),
            ]
        ),
        instances=np.stack([end[instance_owner], instances]),
        slots=np.stack([end[slot_owner], slots]),
    )


@dataclass(frozen=True, slots=True)
class _Requests:
    """Different requests as arrays. held: thousandths and MiB of each GPU, MiB of each replica."""

    needs: IntArray  # (requests, R)
    held: IntArray  # (requests, 3)


def _requests(fleet: Fleet, stays: Sequence[Stay]) -> tuple[_Requests, IntArray]:
    """The requests of all groups, and for each member the row of its own."""
    row_of: dict[int, int] = {}  # by identity, which is quick: as a rule equal ones are one object
    rows: list[Request] = []
    own: list[int] = []
    for stay in stays:
        for group in stay.job.groups:
            if id(group.request) not in row_of:
                row_of[id(group.request)] = len(rows)
                rows.append(group.request)
        kinds = [row_of[id(group.request)] for group in stay.job.groups]
        if len(kinds) == 1:
            own += kinds * len(stay.members)
        else:
            own += [kinds[member.group] for member in stay.members]
    nothing = np.zeros(len(fleet.snapshot.resources), dtype=np.int64)
    vectors = [fleet.vector(request) for request in rows]
    needs = [nothing if vector is None else vector for vector in vectors]
    return (
        _Requests(
            needs=np.array(needs, dtype=np.int64).reshape(len(rows), len(nothing)),
            held=np.array([_held(request) for request in rows], dtype=np.int64).reshape(-1, 3),
        ),
        np.array(own, dtype=np.int64),
    )


def _held(request: Request) -> tuple[int, int, int]:
    memory = request.gpu_memory_mib
    if request.kind == Access.FRACTION:
        return request.gpu_milli, memory, memory
    return WHOLE_MILLI, 0, memory


def _flat(devices: Sequence[tuple[int, ...]]) -> tuple[IntArray, IntArray]:
    """All devices one after the other, and whose each is."""
    flat = np.array(list(chain.from_iterable(devices)), dtype=np.int64)
    if not len(flat):
        return flat, flat
    lengths = np.array(list(map(len, devices)), dtype=np.int64)
    return flat, np.repeat(np.arange(len(devices)), lengths)


def _is_critical(job: JobSpec) -> bool:
    return job.service_class == ServiceClass.LATENCY_CRITICAL


def _joined(tables: Sequence[_Table]) -> _Table:
    return _Table(
        rows=np.concatenate([table.rows for table in tables], axis=1),
        needs=np.concatenate([table.needs for table in tables], axis=1),
        gpus=np.concatenate([table.gpus for table in tables], axis=1),
        instances=np.concatenate([table.instances for table in tables], axis=1),
        slots=np.concatenate([table.slots for table in tables], axis=1),
    )


def _ended(table: IntArray, instant: int) -> IntArray:
    own: IntArray = table[1, table[0] <= instant]
    return own
