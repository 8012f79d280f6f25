"""A stream of jobs through the engine itself, on nodes of equal GPUs.

Without quotas nobody is ever stopped. With them, all tenants are in one cohort, lend all and borrow
all: whoever stays inside its quota takes back what it lent. A job that is stopped is gone at once,
waits again with its submit time, and goes on from its last checkpoint; checkpoints are taken at
every `Policy.checkpoint_interval` of a run, and cost nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from scheduling.engine.arrays import UNLIMITED, IntArray, frozen
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.jobs import Access, Group, PendingJob, Request, RunningJob
from scheduling.engine.plan import Hold, Plan, Preempt, Start
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU, HeldDevices, Quotas, Snapshot
from scheduling.simulation.outcome import Outcome, StreamJob, Watch
from scheduling.simulation.trace import members_of

WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Site:
    """Equal nodes of equal GPUs. quotas: GPUs guaranteed to each tenant; None: there are none."""

    nodes: int
    gpus_per_node: int
    quotas: Mapping[str, int] | None = None

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


def run_engine(
    jobs: Sequence[StreamJob],
    site: Site,
    policy: Policy,
    *,
    check: bool = False,
    watch: Watch | None = None,
) -> list[Outcome | None]:
    """What becomes of each job; None for one that the site can never hold.

    jobs: in order of submission, ties in row order. check: ask `violations` of every plan, and
    raise AssertionError for the first that is unsound.
    """
    return _Replay(jobs, site, policy, check=check, watch=watch).run()


@dataclass(slots=True)
class _Course:
    """How far a job is. worked: seconds of its run time that are saved and need no repetition."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    worked: int = 0
    ends_at: int = 0


class _Replay:
    def __init__(
        self,
        jobs: Sequence[StreamJob],
        site: Site,
        policy: Policy,
        *,
        check: bool,
        watch: Watch | None,
    ) -> None:
        self._jobs = jobs
        self._site = site
        self._policy = policy
        self._check = check
        self._watch = watch
        self._milli = np.full(site.gpus, WHOLE_MILLI, dtype=np.int64)
        self._tenants = sorted({job.tenant for job in jobs})
        self._number = {tenant: number for number, tenant in enumerate(self._tenants)}
        self._used = np.zeros((len(self._tenants), 1), dtype=np.int64)
        self._unlimited = Quotas.of(tenants=len(self._tenants), flavors=1)
        self._pending: dict[int, PendingJob] = {}
        self._running: dict[int, RunningJob] = {}
        self._holds: tuple[HeldDevices, ...] = ()
        self._courses = [_Course() for _ in jobs]
        self._ends: list[tuple[int, int]] = []
        self._ended = 0
        self._empty = self._empty_site()

    def run(self) -> list[Outcome | None]:
        arrivals = list(range(len(self._jobs)))
        arrivals.reverse()
        while (now := self._next_instant(arrivals)) is not None:
            while self._ends and self._ends[0][0] == now:
                self._end(heappop(self._ends)[1], now)
            while arrivals and self._jobs[arrivals[-1]].submit == now:
                index = arrivals.pop()
                self._pending[index] = self._asked(index)
            # Whoever is stopped is gone at once: for whom it was starts in the next cycle.
            while self._pending and self._carry_out(self._plan(now), now):
                pass
        return [
            Outcome(job, tuple(course.runs)) if course.runs else None
            for job, course in zip(self._jobs, self._courses, strict=True)
        ]

    def _next_instant(self, arrivals: Sequence[int]) -> int | None:
        while self._ends and not self._is_true_end(*self._ends[0]):
            heappop(self._ends)
        instants = [self._ends[0][0]] if self._ends else []
        if arrivals:
            instants.append(self._jobs[arrivals[-1]].submit)
        return min(instants, default=None)

    def _is_true_end(self, at: int, index: int) -> bool:
        """Whether the job still ends then: it may have been stopped since."""
        return index in self._running and self._courses[index].ends_at == at

    def _asked(self, index: int) -> PendingJob:
        job = self._jobs[index]
        members, gpus = members_of(job.gpus, per_member=self._site.gpus_per_node)
        request = Request(kind=Access.WHOLE, count=gpus)
        return PendingJob(
            id=index,
            name=str(index),
            tenant=self._number[job.tenant],
            groups=(Group(min_member=members, max_member=members, request=request),),
            submitted_at=job.submit,
            walltime_seconds=job.estimate,
            preemptible=self._site.quotas is not None,
        )

    def _plan(self, now: int) -> Plan:
        snapshot = self._snapshot(now)
        plan = plan_cycle(snapshot, self._policy)
        if self._check and (wrong := violations(snapshot, plan, self._policy)):
            raise AssertionError(f"unsound plan at {now} s: {wrong}")
        return plan

    def _snapshot(self, now: int) -> Snapshot:
        if self._site.quotas is not None:
            self._note_checkpoints(now)
        return replace(
            self._empty,
            taken_at=now,
            gpu_free_milli=frozen(self._milli, self._milli.shape, "gpu_free_milli"),
            quotas=self._quotas(),
            pending=tuple(self._pending.values()),
            running=tuple(self._running.values()),
            holds=self._holds,
        )

    def _empty_site(self) -> Snapshot:
        """The site without jobs: what stays the same from cycle to cycle."""
        nodes, per_node = self._site.nodes, self._site.gpus_per_node
        return Snapshot.of(
            taken_at=0,
            node_ids=tuple(range(nodes)),
            node_names=tuple(f"n{node}" for node in range(nodes)),
            capacity=np.full((2, nodes), UNLIMITED),
            gpu_ids=tuple(range(nodes * per_node)),
            gpu_node=np.arange(nodes).repeat(per_node),
            gpu_index=np.tile(np.arange(per_node), nodes),
            tenant_ids=tuple(range(len(self._tenants))),
            tenant_names=tuple(self._tenants),
            cohort_names=() if self._site.quotas is None else ("all",),
            quotas=self._quotas(),
        )

    def _quotas(self) -> Quotas:
        tenants = len(self._tenants)
        if self._site.quotas is None:
            return self._unlimited
        nominal = [self._site.quotas.get(tenant, 0) * PARTS_PER_GPU for tenant in self._tenants]
        return Quotas.of(
            tenants=tenants,
            cohorts=1,
            flavors=1,
            limited=[True] * (tenants + 1),
            parent=[tenants] * tenants + [-1],
            nominal=_column([*nominal, 0]),
            usage=self._used * PARTS_PER_GPU,
        )

    def _note_checkpoints(self, now: int) -> None:
        interval = self._policy.checkpoint_interval
        for index, job in self._running.items():
            saved = job.checkpoint_at
            if saved is not None and now - saved >= interval:
                latest = saved + (now - saved) // interval * interval
                self._running[index] = replace(job, checkpoint_at=latest)

    def _carry_out(self, plan: Plan, now: int) -> bool:
        """Do what the plan says at once; returns whether anybody was stopped."""
        is_stopped = False
        for decision in plan.decisions:
            if isinstance(decision, Start):
                self._start(decision, now)
            elif isinstance(decision, Preempt):
                self._stop(decision.job, now)
                is_stopped = True
        self._holds = tuple(
            HeldDevices(hold.job, hold.keeps, hold.keeps_until)
            for hold in plan.of(Hold)
            if hold.keeps_until is not None
        )
        return is_stopped

    def _start(self, start: Start, now: int) -> None:
        asked, job = self._pending.pop(start.job), self._jobs[start.job]
        course = self._courses[start.job]
        course.ends_at = now + job.runtime - course.worked
        self._running[start.job] = RunningJob(
            id=asked.id,
            name=asked.name,
            tenant=asked.tenant,
            groups=asked.groups,
            submitted_at=asked.submitted_at,
            walltime_seconds=asked.walltime_seconds,
            preemptible=asked.preemptible,
            preempted=asked.preempted,
            members=start.members,
            started_at=now,
            limit_end_at=now + job.estimate,
            checkpoint_at=now,
        )
        self._hand_over(self._running[start.job], free=False)
        heappush(self._ends, (course.ends_at, start.job))

    def _end(self, index: int, now: int) -> None:
        if not self._is_true_end(now, index):
            return
        job = self._running.pop(index)
        self._courses[index].runs.append((job.started_at, now))
        self._hand_over(job, free=True)
        self._ended += 1
        if self._watch is not None:
            self._watch(self._ended)

    def _stop(self, index: int, now: int) -> None:
        job, course = self._running.pop(index), self._courses[index]
        course.runs.append((job.started_at, now))
        course.worked += (job.checkpoint_at or now) - job.started_at
        self._hand_over(job, free=True)
        self._pending[index] = replace(self._asked(index), preempted=job.preempted + 1)

    def _hand_over(self, job: RunningJob, *, free: bool) -> None:
        """Take the GPUs of `job`, or give them back."""
        gpus = [gpu for member in job.members for gpu in member.gpus]
        self._milli[gpus] = WHOLE_MILLI if free else 0
        self._used[job.tenant] += -len(gpus) if free else len(gpus)


def _column(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64).reshape(-1, 1)
