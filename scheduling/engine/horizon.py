"""What will be free later: who holds what now, and until when at the latest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.arrays import NEVER, IntArray
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, RunningJob, ServiceClass
from scheduling.engine.ledger import WHOLE_MILLI, Freed, Ledger
from scheduling.engine.policy import EndEstimate, Policy


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
    """Stays in order of their ends, and the ledger at any later instant."""

    def __init__(self, fleet: Fleet, stays: Iterable[Stay]) -> None:
        self._fleet = fleet
        self._stays = list(stays)
        self._table: _Table | None = None

    def add(self, job: JobSpec, members: tuple[PlacedMember, ...], end: int) -> None:
        self._stays.append(Stay(job, members, end))
        self._table = None

    def drop(self, job_id: int, members: Sequence[PlacedMember] | None = None) -> None:
        """Forget all members of a job, or only `members`: they are on their way out."""
        kept = []
        for stay in self._stays:
            left = stay.members if stay.job.id != job_id else ()
            if stay.job.id == job_id and members is not None:
                left = tuple(member for member in stay.members if member not in members)
            if left:
                kept.append(Stay(stay.job, left, stay.end))
        self._stays = kept
        self._table = None

    def fork(self) -> "Horizon":
        """A copy that goes its own way."""
        return Horizon(self._fleet, self._stays)

    def endless(self) -> list[Stay]:
        """Stays that nothing ends."""
        return [stay for stay in self._stays if stay.end == NEVER]

    def ends(self) -> list[int]:
        """The instants at which something comes free, each once, in order."""
        ends = {stay.end for stay in self._stays if stay.end != NEVER}
        return sorted(ends)

    def at(self, ledger: Ledger, instant: int) -> Ledger:
        """A fork of `ledger` in which all is given back that ends by `instant`."""
        if self._table is None:
            self._table = _Table(self._fleet, self._stays)
        later = ledger.fork()
        later.give_back(self._table.freed(instant))
        return later


class _Table:
    """The stays as arrays, one row per member and one per device."""

    def __init__(self, fleet: Fleet, stays: Sequence[Stay]) -> None:
        rows: list[tuple[int, int, int]] = []
        needs: list[IntArray] = []
        gpus: list[tuple[int, int, int, int]] = []
        instances: list[tuple[int, int]] = []
        slots: list[tuple[int, int]] = []
        nothing = np.zeros(len(fleet.snapshot.resources), dtype=np.int64)
        for stay in stays:
            alone = int(stay.job.service_class == ServiceClass.LATENCY_CRITICAL)
            for member in stay.members:
                request = stay.job.groups[member.group].request
                rows.append((stay.end, member.node, alone))
                vector = fleet.vector(request)
                needs.append(nothing if vector is None else vector)
                part = request.kind == Access.FRACTION
                milli = request.gpu_milli if part else WHOLE_MILLI
                memory = request.gpu_memory_mib
                gpus += [(stay.end, gpu, milli, memory * part) for gpu in member.gpus]
                instances += [(stay.end, row) for row in member.instances]
                slots += [(stay.end, row) for row in member.slots]
                gpus += [
                    (stay.end, int(fleet.snapshot.slot_gpu[row]), 0, memory) for row in member.slots
                ]
        self._rows = _columns(rows, 3)
        self._needs = np.array(needs, dtype=np.int64).reshape(len(rows), len(nothing)).T
        self._gpus = _columns(gpus, 4)
        self._instances = _columns(instances, 2)
        self._slots = _columns(slots, 2)

    def freed(self, instant: int) -> Freed:
        """What is given back by `instant`."""
        own = self._rows[0] <= instant
        device = self._gpus[0] <= instant
        return Freed(
            node=self._rows[1, own],
            need=self._needs[:, own],
            alone=self._rows[2, own],
            gpu=self._gpus[1, device],
            gpu_milli=self._gpus[2, device],
            gpu_memory_mib=self._gpus[3, device],
            instance=_ended(self._instances, instant),
            slot=_ended(self._slots, instant),
        )


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width).T


def _ended(table: IntArray, instant: int) -> IntArray:
    own: IntArray = table[1, table[0] <= instant]
    return own
