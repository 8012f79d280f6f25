from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from scheduling.models import Advice, Job, StartEstimate
from scheduling.reports.estimates import Record, Start, record_of, start_from
from scheduling.reports.helps import Help, helps_of
from scheduling.reports.position import Position, place_of
from scheduling.reports.preemptions import preemption_texts
from scheduling.reports.reasons import Fact, facts, reason_text
from scheduling.states import JobState
from tenants.models import User


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reason: its code for programs, its text in the reader's language."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Where a job stands, when it may start, and what would help; empty when it does not wait.

    competing: (position, key) of the jobs in front that want the same GPUs. would_help: None while
    nobody has looked for it since the last cycle; is_complete: whether that search came to its end;
    is_true: whether nothing has changed since then.
    """

    position: Position | None
    competing: Sequence[tuple[int, int]]
    start: Start | None
    record: Record | None
    would_help: tuple[Help, ...] | None
    checked_at: datetime | None
    is_complete: bool
    is_true: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Wait):
    """Why a job waits, and everything about its wait.

    since: in its state since. evaluated_at: the last cycle that looked at it. Cluster clock.
    stops: how it last made room for another job, and who made room for it; a sentence each.
    """

    state: str
    since: datetime
    evaluated_at: datetime | None
    reason: Reasoning | None
    facts: tuple[Fact, ...]
    stops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What was found out about a job between cycles. is_true: whether `advice` still is."""

    advice: Advice | None
    estimate: StartEstimate | None
    is_true: bool = True


def wait_of(job: Job, known: Known, *, reader: User, at: datetime) -> Wait:
    """What is known of `job`'s wait, told to `reader`. Six queries at most. at: cluster clock."""
    advice = known.advice
    position, competing = place_of(job) or (None, ())
    return Wait(
        position=position,
        competing=competing,
        start=start_from(known.estimate, job, at=at),
        record=record_of(job.cluster) if job.state == JobState.QUEUED else None,
        would_help=None if advice is None else helps_of(job, advice, reader=reader),
        checked_at=None if advice is None else advice.checked_at,
        is_complete=advice is not None and advice.is_complete,
        is_true=known.is_true,
    )


def explained(job: Job, known: Known, *, reader: User, at: datetime) -> Explanation:
    """Everything about `job`'s wait, told to `reader`. Nine queries at most. at: cluster clock."""
    last = job.events.order_by("-pk").first()
    wait = wait_of(job, known, reader=reader, at=at)
    return Explanation(
        state=job.state,
        since=job.submitted_at if last is None else last.at,
        evaluated_at=_evaluated_at(job),
        reason=reasoning(job),
        facts=facts(job),
        stops=preemption_texts(job),
        **{field.name: getattr(wait, field.name) for field in fields(Wait)},
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
