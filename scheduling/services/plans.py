"""Carrying a plan out: rows first; what the cluster must do is queued with them."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from scheduling.engine.plan import Plan, Preempt
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job
from scheduling.services.lifecycle import stop
from scheduling.services.starts import start_all
from scheduling.services.verdicts import note_holds, note_reservations
from scheduling.states import JobState


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan. skipped: decisions whose job or devices had changed meanwhile."""

    started: int
    skipped: int
    held: int
    stopped: int = 0


def apply_plan(plan: Plan, snapshot: Snapshot, *, at: datetime) -> Applied:
    """Write `plan` down. A decision that meets a changed row is lost alone; the rest goes on.

    at: cluster clock, the snapshot's instant.
    """
    preemptions = tuple(plan.of(Preempt))
    # First the rooms that are kept, so that what victims give back is never without an owner.
    held = note_holds(plan.holds, snapshot, at=at)
    stopped = sum(_preempt(preemption, snapshot, at=at) for preemption in preemptions)
    started = start_all(plan.starts, snapshot, at=at)
    note_reservations(plan, snapshot, at=at)
    return Applied(
        started=started,
        stopped=stopped,
        skipped=len(plan.starts) + len(preemptions) - started - stopped,
        held=held,
    )


def _preempt(preemption: Preempt, snapshot: Snapshot, *, at: datetime) -> bool:
    """Stop one job, to be queued again; False when it ended or was stopped since the snapshot."""
    job = Job.objects.displaceable().filter(pk=preemption.job).first()
    if job is None:
        return False
    claimant = preemption.on_behalf_of
    names = {waiting.id: waiting.name for waiting in snapshot.pending}
    reason = f"preempted for {names[claimant]}" if claimant else "below its minimum"
    return stop(
        job,
        towards=JobState.QUEUED,
        at=at,
        reason=reason,
        stopping_for_id=claimant,
        preempted_count=F("preempted_count") + (1 if claimant else 0),
    )
