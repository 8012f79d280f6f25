from dataclasses import dataclass
from datetime import datetime

from scheduling.models import Job
from scheduling.reports.position import Position, position_of
from scheduling.reports.reasons import Fact, facts, reason_text
from scheduling.states import JobState


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reason: its code for programs, its text in the reader's language."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits; `reason` and `position` are None when it does not.

    since: in its state since. evaluated_at: the last cycle that looked at it. Cluster clock.
    """

    state: str
    since: datetime
    evaluated_at: datetime | None
    reason: Reasoning | None
    position: Position | None
    facts: tuple[Fact, ...]


def explained(job: Job) -> Explanation:
    """Everything that is known about `job`'s wait. Four queries."""
    last = job.events.order_by("-pk").first()
    return Explanation(
        state=job.state,
        since=job.submitted_at if last is None else last.at,
        evaluated_at=_evaluated_at(job),
        reason=reasoning(job),
        position=position_of(job),
        facts=facts(job),
    )


def reasoning(job: Job) -> Reasoning | None:
    """The reason of a waiting job, `not_evaluated` before its first cycle; None for any other."""
    if job.state != JobState.QUEUED:
        return None
    return Reasoning(job.reason or "not_evaluated", reason_text(job))


def _evaluated_at(job: Job) -> datetime | None:
    """Every cycle gives every waiting job a verdict, but writes down only one that is new."""
    if job.state != JobState.QUEUED or job.reason_at is None:
        return job.reason_at
    return max(job.reason_at, job.cluster.planned_at or job.reason_at)
