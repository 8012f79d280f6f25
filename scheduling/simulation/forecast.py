"""When waiting jobs may start: the cycle run forward in time, over ends drawn from what was before.

Each run draws for every job how much of its walltime it will use, from what ended jobs used, given
how long it runs already. The ranges span all runs: if the drawn ends are like the true one, the
true start is as likely to be the earliest, the second ... or the last of all n + 1, so it lies
inside the range of n runs with a probability of (n - 1) / (n + 1).

Nobody is stopped for anybody in these runs, and nobody submits anything new.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from scheduling.engine.arrays import NEVER
from scheduling.engine.course import Course
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.horizon import end_of, grace_of
from scheduling.engine.jobs import JobSpec, RunningJob
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot

WHOLE: Final = 1000
MINUTE: Final = 60
GRAIN: Final = 20
"""Ends are looked at together that lie within a minute, or a 20th of the time to them, and as many
as let all that runs end within the cycles of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How long jobs ran that have ended, each list rising.

    used: by tenant (index into the snapshot's), thousandths of their walltime. anybody: the same of
    all tenants, for one that is not in `used`. seconds: for jobs without a walltime, and for all
    where nobody knows what they use of theirs.
    lags: seconds from the end of a job until its place was free.
    """

    used: dict[int, Sequence[int]] = field(default_factory=dict)
    anybody: Sequence[int] = ()
    seconds: Sequence[int] = ()
    lags: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class Span:
    """A start lies between these instants, in seconds since the epoch."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What all runs together say.

    spans: of the jobs that started in every run. earliest: of those that started in some, when they
    did first. is_cut: whether a run was over before everything had started that would.
    """

    spans: dict[int, Span]
    earliest: dict[int, int]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is looked at: runs, cycles of each at most, and waiting jobs from the front.

    first: the number of the first run, which its draws begin with.
    """

    runs: int = 9
    cycles: int = 60
    depth: int = 200
    first: int = 0


def odds(runs: int) -> int:
    """How likely a start lies within the range of so many runs, in percent."""
    return 100 * (runs - 1) // (runs + 1)


def forecast(snapshot: Snapshot, policy: Policy, past: Past, effort: Effort = Effort()) -> Forecast:
    """When the first waiting jobs start. `snapshot.pending` stands in the order of the queue."""
    few = replace(snapshot, pending=snapshot.pending[: effort.depth])
    patient = without_stops(policy)
    spans: dict[int, list[Span]] = {}
    is_cut = False
    for number in range(effort.first, effort.first + effort.runs):
        random = Random(number)  # noqa: S311 -- no secret: the same snapshot, the same forecast
        run = _Run(few, patient, past, random)
        for job, span in run.starts(effort.cycles):
            spans.setdefault(job, []).append(span)
        is_cut |= not run.is_over
    return Forecast(
        spans={job: _hull(own) for job, own in spans.items() if len(own) == effort.runs},
        earliest={job: _hull(own).earliest for job, own in spans.items() if len(own) < effort.runs},
        is_cut=is_cut,
    )


def without_stops(policy: Policy) -> Policy:
    """The same policy, but nobody is stopped for anybody."""
    return replace(policy, max_preemptions=0)


def _hull(spans: Sequence[Span]) -> Span:
    return Span(min(own.earliest for own in spans), max(own.latest for own in spans))


class _Run:
    """One way in which things may go on."""

    def __init__(self, snapshot: Snapshot, policy: Policy, past: Past, random: Random) -> None:
        self._course = Course(snapshot)
        self._policy = policy
        self._past = past
        self._random = random
        self._first = self._now = snapshot.taken_at
        self.is_over = False
        self._ends = {job.id: self._gone(job) for job in snapshot.running}

    def starts(self, cycles: int) -> Iterator[tuple[int, Span]]:
        """(job, when it starts) in the order of the starts, over so many cycles."""
        course = self._course
        at_once = -(-len(course.running) // max(1, cycles - 1))  # the first cycle is now
        for _ in range(cycles):
            plan = plan_cycle(course.snapshot(self._now), self._policy)
            course.start(plan.starts, self._now)
            for start in plan.starts:
                self._ends[start.job] = self._gone(course.running[start.job])
                yield start.job, Span(self._first, self._now)
            if not course.pending or not self._go_on(at_once):
                self.is_over = True
                return

    def _go_on(self, at_once: int) -> bool:
        """Let time pass until something ends or may start; False if nothing ever does.

        at_once: so many ends at least are taken together.
        """
        waits = [job.not_before or 0 for job in self._course.pending.values()]
        later = sorted(at for at in (*self._ends.values(), *waits) if self._now < at < NEVER)
        if not later:
            return False
        first = later[0]
        grain = max(MINUTE, (first - self._now) // GRAIN)
        together = max(at_once, bisect_left(later, first + grain))
        instant = later[: max(1, together)][-1]
        over = [job for job, end in self._ends.items() if end <= instant]
        for job in over:
            del self._ends[job]
        self._course.end(over)
        self._first, self._now = first, instant
        return True

    def _gone(self, job: RunningJob) -> int:
        """When the place of a job that runs or starts now will be free this time."""
        if job.stopping:
            return self._now + grace_of(job, self._policy)
        end = self._end(job)
        return end if end == NEVER else end + self._random.choice(self._past.lags)

    def _end(self, job: RunningJob) -> int:
        """When a job that runs or starts now will end this time."""
        at = self._now
        last = end_of(job, self._policy, at)
        ran = at - job.started_at
        parts = () if last == NEVER else self._used(job)
        if not parts:
            lasts = _drawn(self._past.seconds, ran, self._random)
            return last if lasts is None else min(last, job.started_at + lasts)
        limit = max(1, last - job.started_at)
        used = _drawn(parts, ran * WHOLE // limit, self._random)
        if used is None:
            return last
        return min(last, max(at + 1, job.started_at + used * limit // WHOLE))

    def _used(self, job: JobSpec) -> Sequence[int]:
        return self._past.used.get(job.tenant, self._past.anybody)


def _drawn(values: Sequence[int], above: int, random: Random) -> int | None:
    """One of the rising `values` that is larger than `above`; None if none is."""
    first = bisect_right(values, above)
    return values[random.randrange(first, len(values))] if first < len(values) else None
