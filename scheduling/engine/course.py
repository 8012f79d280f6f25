"""A cluster that goes on from a snapshot: jobs end and start, and what is free follows."""

from collections.abc import Iterable
from dataclasses import fields, replace

from scheduling.engine.arrays import frozen, frozen_flags
from scheduling.engine.charge import charges
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import JobSpec, PendingJob, RunningJob
from scheduling.engine.ledger import Ledger
from scheduling.engine.plan import Start
from scheduling.engine.snapshot import Snapshot

_SPEC = tuple(field.name for field in fields(JobSpec))


class Course:
    """What runs and waits, and what is free, after each step.

    pending, running: by id, in the order of the snapshot and then of the starts.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.pending: dict[int, PendingJob] = {job.id: job for job in snapshot.pending}
        self.running: dict[int, RunningJob] = {job.id: job for job in snapshot.running}
        self._snapshot = snapshot
        self._ledger = Ledger(Fleet(snapshot))
        self._usage = snapshot.quotas.usage.copy()

    def end(self, job_ids: Iterable[int]) -> None:
        """Running jobs give back everything."""
        for job_id in job_ids:
            job = self.running.pop(job_id)
            self._ledger.release(job, job.members)
            self._charge(job, -1)

    def start(self, starts: Iterable[Start], at: int) -> None:
        """Waiting jobs run from `at` on."""
        for start in starts:
            waiting = self.pending.pop(start.job)
            spec = {name: getattr(waiting, name) for name in _SPEC}
            span = waiting.walltime_seconds
            limit = None if span is None else at + span
            job = RunningJob(**spec, members=start.members, started_at=at, limit_end_at=limit)
            self.running[job.id] = job
            self._ledger.take(job, job.members)
            self._charge(job, 1)

    def snapshot(self, at: int) -> Snapshot:
        """The cluster as it then is. What stops, closes or is kept does so as it was."""
        before, ledger = self._snapshot, self._ledger
        shape = before.quotas.usage.shape
        return replace(
            before,
            taken_at=at,
            free=frozen(ledger.free, before.free.shape, "free"),
            gpu_free_milli=frozen(ledger.gpu_milli, before.gpu_free_milli.shape, "milli"),
            gpu_free_memory_mib=frozen(ledger.gpu_memory, before.gpu_free_milli.shape, "memory"),
            mig_free=frozen_flags(ledger.instances, before.mig_free.shape, "mig_free"),
            slot_free=frozen_flags(ledger.slots, before.slot_free.shape, "slot_free"),
            quotas=replace(before.quotas, usage=frozen(self._usage, shape, "usage")),
            pending=tuple(self.pending.values()),
            running=tuple(self.running.values()),
        )

    def _charge(self, job: RunningJob, sign: int) -> None:
        for flavor, parts in charges(self._ledger.fleet, job, job.members).items():
            self._usage[job.tenant, flavor] += sign * parts
