"""Carrying a plan out: rows first; what the cluster must do is queued with them."""

from dataclasses import dataclass
from datetime import datetime

from scheduling.engine.plan import Grow, Plan, Preempt, Shrink
from scheduling.engine.snapshot import Snapshot
from scheduling.services.preempting import preempt
from scheduling.services.scaling import grow, shrink
from scheduling.services.starts import start_all
from scheduling.services.verdicts import note_holds, note_reservations


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan. skipped: decisions whose job or devices had changed meanwhile."""

    started: int
    skipped: int
    held: int
    stopped: int = 0
    scaled: int = 0


def apply_plan(plan: Plan, snapshot: Snapshot, *, at: datetime) -> Applied:
    """Write `plan` down. A decision that meets a changed row is lost alone; the rest goes on.

    at: cluster clock, the snapshot's instant.
    """
    preemptions, shrinks, grows = (tuple(plan.of(kind)) for kind in (Preempt, Shrink, Grow))
    # First the rooms that are kept, so that what victims give back is never without an owner.
    held = note_holds(plan.holds, snapshot, at=at)
    stopped = sum(preempt(preemption, snapshot, at=at) for preemption in preemptions)
    scaled = sum(shrink(decision, snapshot, at=at) for decision in shrinks)
    started = start_all(plan.starts, snapshot, at=at)
    scaled += sum(grow(decision, snapshot, at=at) for decision in grows)
    note_reservations(plan, snapshot, at=at)
    return Applied(
        started=started,
        stopped=stopped,
        scaled=scaled,
        skipped=len(plan.starts)
        + len((*preemptions, *shrinks, *grows))
        - (started + stopped + scaled),
        held=held,
    )
