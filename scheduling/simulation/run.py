"""A scenario run forward in time: the same cycle as in production, after every event.

At one instant: ends, then changes in file order, then the cycle; and again while something that
the cycle did ends at that same instant.
"""

from collections.abc import Callable, Iterator

from scheduling.engine.arrays import NEVER
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import (
    Decision,
    Grow,
    Hold,
    Plan,
    Preempt,
    Repartition,
    Reserve,
    Shrink,
    Start,
)
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import Scenario, apply_event, values
from scheduling.engine.scenario.events import finish, grace_of, lose_seats, stop_duration
from scheduling.engine.scenario.render import Renderer
from scheduling.engine.scenario.survey import Survey
from scheduling.engine.scenario.world import Job, Keep, Seat, World
from scheduling.engine.snapshot import GpuMode, Snapshot

MOST_CYCLES_AT_ONCE = 1000
"""More cycles at one instant than this mean that something never settles."""


def simulate(
    scenario: Scenario,
    *,
    until: int | None = None,
    with_devices: bool = False,
    check: bool = False,
    watch: Callable[[Snapshot, Policy, Plan], None] | None = None,
) -> Iterator[str]:
    """The lines of a run: decisions, ends, and what jobs lost, each with its time.

    until: seconds from the beginning to stop at; without it the run ends when nothing more can
    happen. check: raise AssertionError for the first plan that breaks a rule. watch: is shown each
    plan with what it was made of.
    """
    run = _Run(scenario, with_devices=with_devices, check=check, watch=watch)
    return run.lines(NEVER if until is None else until)


class _Run:
    """The world, what is still to happen to it, and what was last said of each waiting job."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        with_devices: bool,
        check: bool,
        watch: Callable[[Snapshot, Policy, Plan], None] | None,
    ) -> None:
        self._world: World = scenario.world
        self._events = list(scenario.events)
        self._refused = list(scenario.refused)
        self._with_devices = with_devices
        self._check = check
        self._watch = watch
        self._said: dict[tuple[str, int], str] = {}
        self._leaving: list[tuple[int, Job, tuple[Seat, ...]]] = []
        self._now = 0
        self._reserved: list[int] = []
        self._again = False

    def lines(self, until: int) -> Iterator[str]:
        yield from self._refusals(self._refused)
        while True:
            yield from self._instant()
            later = self._next_instant()
            if later is None or later > until:
                return
            self._now = later

    def _instant(self) -> Iterator[str]:
        for _ in range(MOST_CYCLES_AT_ONCE):
            yield from self._ends()
            while self._events and self._events[0].at <= self._now:
                event = self._events.pop(0)
                before = {job.name for job in self._world.jobs.values() if job.is_placed}
                yield from self._refusals(apply_event(self._world, event))
                yield from self._ended_by_event(event.line, before)
                yield from self._ends()
            yield from self._cycle()
            if not self._due_now():
                return
        raise AssertionError(f"the plans at {self._now} s never settle")

    def _refusals(self, refused: list[tuple[str, str]]) -> Iterator[str]:
        for name, why in refused:
            yield self._line(f"refuse {name} {why}")

    def _ended_by_event(self, line: str, before: set[str]) -> Iterator[str]:
        """A line for a job that an event ended."""
        word, name, *_ = line.split()
        if word in {"end", "fail"} and name in before:
            yield self._line(f"end {name}")

    def _ends(self) -> Iterator[str]:
        """Let go what is over by now: jobs at their end or limit, stopped ones, members."""
        for job in sorted(self._world.placed(), key=lambda own: own.id):
            if job.state == "stopping" and job.gone_at is not None and job.gone_at <= self._now:
                yield self._gone(job)
            elif job.state == "running" and _true_end(job) <= self._now:
                finish(job, "done")
                yield self._line(f"end {job.name}")
            elif job.state == "running" and job.limit is not None and job.limit <= self._now:
                finish(job, "failed")
                yield self._line(f"end {job.name}")
        due = [own for own in self._leaving if own[0] <= self._now]
        self._leaving = [own for own in self._leaving if own[0] > self._now]
        for _, job, seats in due:
            lose_seats(job, [seat for seat in seats if seat in job.seats])

    def _gone(self, job: Job) -> str:
        """A stopped job is gone: it waits again from its last checkpoint, or was cancelled."""
        if job.is_cancelled:
            finish(job, "cancelled")
            return self._line(f"gone {job.name}")
        told = job.gone_at or self._now
        if job.save is not None and job.save <= grace_of(self._world, job):
            job.checkpoint = told
        since = job.started if job.checkpoint is None else job.checkpoint
        gpus = _gpus_of(job)
        lost = gpus * (told - since)
        if job.checkpoint is not None:
            job.worked += max(0, job.checkpoint - job.started)
        finish(job, "waiting")
        job.stopping_for, job.limit, job.checkpoint = None, None, None
        return self._line(f"gone {job.name} lost={values.duration_text(lost)}")

    def _cycle(self) -> Iterator[str]:
        survey = Survey(self._world, self._now)
        snapshot = survey.snapshot()
        plan = self._plan(snapshot)
        names = self._world.names()
        renderer = Renderer(snapshot, 0, names, self._with_devices)
        lines = [
            self._line(text)
            for decision in plan.decisions
            if self._is_news(decision, text := renderer.line(decision))
        ]
        self._again = any(True for _ in plan.of(Repartition))
        self._reserved = [reserve.start_at for reserve in plan.of(Reserve)]
        _Hands(self._world, survey, self._now, self._leaving).carry_out(plan)
        yield from lines

    def _plan(self, snapshot: Snapshot) -> Plan:
        policy = self._world.policy
        plan = plan_cycle(snapshot, policy)
        if self._check and (wrong := violations(snapshot, plan, policy)):
            raise AssertionError(f"unsound plan at {self._now} s: {wrong}")
        if self._watch is not None:
            self._watch(snapshot, policy, plan)
        return plan

    def _is_news(self, decision: Decision, text: str) -> bool:
        """A hold or a reservation is told when it is new or has changed."""
        if isinstance(decision, Start):
            self._said.pop(("Hold", decision.job), None)
            self._said.pop(("Reserve", decision.job), None)
        if not isinstance(decision, Hold | Reserve):
            return True
        key = type(decision).__name__, decision.job
        known, self._said[key] = self._said.get(key), text
        return known != text

    def _line(self, text: str) -> str:
        return f"{values.time_text(self._now)} {text}"

    def _due_now(self) -> bool:
        """Whether another cycle at this instant has something new to see."""
        return self._again or self._next_end() <= self._now

    def _next_end(self) -> int:
        """When the next job or member is gone."""
        ends = [_next_end(job) for job in self._world.placed()]
        return min([*ends, *(own[0] for own in self._leaving)], default=NEVER)

    def _next_instant(self) -> int | None:
        """The next instant at which anything ends, is told, or may change a verdict."""
        instants = [self._next_end(), *(event.at for event in self._events), *self._timers()]
        later = [instant for instant in instants if self._now < instant < NEVER]
        return min(later, default=None)

    def _timers(self) -> Iterator[int]:
        world = self._world
        for job in world.jobs.values():
            if job.state == "waiting":
                yield job.not_before or 0
                yield job.submitted + (job.patience or 0)
            elif job.is_placed:
                yield job.protected
                yield job.started + world.policy.min_run
        if not any(job.state == "waiting" for job in world.jobs.values()):
            return
        yield from self._reserved
        for node in world.nodes.values():
            yield node.window or 0
        for block in world.blocks.values():
            yield block.start
            yield block.end
        for keep in world.keeps.values():
            yield keep.until


class _Hands:
    """Carries a plan out on the world, at once and without fail."""

    def __init__(
        self,
        world: World,
        survey: Survey,
        now: int,
        leaving: list[tuple[int, Job, tuple[Seat, ...]]],
    ) -> None:
        self._world = world
        self._survey = survey
        self._now = now
        self._leaving = leaving
        self._by_id = {job.id: job for job in world.jobs.values()}

    def carry_out(self, plan: Plan) -> None:
        self._world.keeps = {}
        for decision in plan.decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self._start(decision)
        elif isinstance(decision, Grow):
            job = self._by_id[decision.job]
            job.seats += self._survey.seats(decision.members)
        elif isinstance(decision, Shrink):
            self._shrink(self._by_id[decision.job], decision.members)
        elif isinstance(decision, Preempt):
            self._stop(self._by_id[decision.job], decision)
        elif isinstance(decision, Repartition):
            self._recut(decision)
        elif isinstance(decision, Hold) and decision.keeps_until is not None:
            name = self._by_id[decision.job].name
            seats = self._survey.seats(decision.keeps)
            self._world.keeps[name] = Keep(name, seats, decision.keeps_until)

    def _start(self, start: Start) -> None:
        job = self._by_id[start.job]
        job.state, job.started = "running", self._now
        job.seats = self._survey.seats(start.members)
        walltime = job.walltime
        if walltime is None:
            walltime = self._world.policy.default_walltime
        job.limit = None if walltime is None else self._now + walltime

    def _shrink(self, job: Job, members: tuple[PlacedMember, ...]) -> None:
        seats = self._survey.seats(members)
        job.leaving += seats
        self._leaving.append((self._now + stop_duration(self._world, job), job, seats))

    def _stop(self, job: Job, decision: Preempt) -> None:
        job.state = "stopping"
        job.gone_at = self._now + stop_duration(self._world, job)
        job.stopping_for = decision.on_behalf_of
        job.preempted += decision.on_behalf_of is not None

    def _recut(self, change: Repartition) -> None:
        node, number = self._survey.gpus[change.gpu]
        gpu = node.gpus[number]
        gpu.sharing = GpuMode.MIG, 1, False
        gpu.layout = tuple(sorted((start, profile) for profile, start in change.layout))
        gpu.faulty_starts = set()


def _true_end(job: Job) -> int:
    """When a running job is really done: its run time counts from the start."""
    takes = job.takes if job.takes is not None else job.walltime
    return NEVER if takes is None else job.started + takes - job.worked


def _next_end(job: Job) -> int:
    if job.state == "stopping":
        return NEVER if job.gone_at is None else job.gone_at
    limit = NEVER if job.limit is None else job.limit
    return min(_true_end(job), limit)


def _gpus_of(job: Job) -> int:
    return sum(len(seat.gpus) for seat in job.seats)
