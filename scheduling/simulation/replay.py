"""A stream of jobs through the engine itself, on nodes of equal GPUs.

Without quotas nobody is ever stopped. With them, all tenants are in one cohort, lend all and borrow
all: whoever stays inside its quota takes back what it lent. A job that is stopped is gone at once,
waits again with its submit time, and goes on from its last checkpoint; checkpoints are taken at
every `Policy.checkpoint_interval` of a run, and cost nothing.

On one node a cycle in which nobody could take anything back decides as a pool does, and is spared
the engine: `run_engine(..., spare=False)` plans every one, to the same end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from scheduling.engine.arrays import UNLIMITED, IntArray, frozen
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.jobs import (
    Access,
    Group,
    PendingJob,
    PlacedMember,
    Request,
    RunningJob,
)
from scheduling.engine.memory import Memory
from scheduling.engine.plan import Hold, Plan, Preempt, Start
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU, HeldDevices, Quotas, Snapshot
from scheduling.simulation.outcome import Outcome, StreamJob, Watch
from scheduling.simulation.pool import Pass, Promised, can_run, waiting_of
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
    spare: bool = True,
    watch: Watch | None = None,
) -> list[Outcome | None]:
    """What becomes of each job; None for one that the site can never hold.

    jobs: in order of submission, ties in row order. check: ask `violations` of every plan, and
    raise AssertionError for the first that is unsound. spare: plan no cycle with quotas that is
    known to decide as a pool.
    """
    replay = _Replay(jobs, site, policy, check=check, watch=watch)
    replay.is_sparing = spare and site.nodes == 1 and site.quotas is not None and can_run(policy)
    return replay.run()


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
        self._nominal = [(site.quotas or {}).get(tenant, 0) for tenant in self._tenants]
        self._asked_for = waiting_of(jobs)
        self.is_sparing = False
        self._used = np.zeros((len(self._tenants), 1), dtype=np.int64)
        self._unlimited = Quotas.of(tenants=len(self._tenants), flavors=1)
        self._pending: dict[int, PendingJob] = {}
        self._running: dict[int, RunningJob] = {}
        self._holds: tuple[HeldDevices, ...] = ()
        self._courses = [_Course() for _ in jobs]
        self._ends: list[tuple[int, int]] = []
        self._ended = 0
        self._empty = self._empty_site()
        self._memory = Memory()

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
            while self._pending and self._cycle(now):
                pass
        return [
            Outcome(job, tuple(course.runs)) if course.runs else None
            for job, course in zip(self._jobs, self._courses, strict=True)
        ]

    def _cycle(self, now: int) -> bool:
        """One cycle, carried out; returns whether anybody was stopped."""
        if self.is_sparing and not self._holds:
            chosen = self._as_pool(now)
            if chosen is not None:
                for index in chosen:
                    self._start(index, self._seat(index), now)
                return False
        return self._carry_out(self._plan(now), now)

    def _as_pool(self, now: int) -> list[int] | None:
        """The jobs that a pool starts now; None where somebody might take back what it lent."""
        queue = np.array(sorted(self._pending), dtype=np.int64)
        free = int(self._milli.sum()) // WHOLE_MILLI
        one_pass = Pass(self._policy, now, free, self._stays)
        chosen: list[int] = queue[one_pass.starts(self._asked_for.at(queue))].tolist()
        within = [index for index in self._pending if self._is_within_quota(index)]
        claimants = set(within).difference(chosen)
        if claimants:
            lent = self._lent(chosen, now)
            promise = one_pass.promise
            if promise is not None and int(queue[promise.place]) in claimants:
                promise = None
            if any(self._may_reclaim(own, free, lent, promise, now) for own in claimants):
                return None
        return chosen

    def _is_within_quota(self, index: int) -> bool:
        job = self._jobs[index]
        tenant = self._number[job.tenant]
        return bool(self._used[tenant, 0] + job.gpus <= self._nominal[tenant])

    def _lent(self, chosen: Sequence[int], now: int) -> Sequence[int]:
        """GPUs by tenant that jobs of borrowers hold once the chosen have started."""
        used, policy = self._used[:, 0].copy(), self._policy
        for index in chosen:
            used[self._number[self._jobs[index].tenant]] += self._jobs[index].gpus
        lent = [0] * len(self._tenants)
        for index, job in self._running.items():
            if (
                used[job.tenant] > self._nominal[job.tenant]
                and job.preempted < policy.max_preemptions
                and job.started_at + policy.min_run <= now
            ):
                lent[job.tenant] += self._jobs[index].gpus
        return lent

    def _may_reclaim(
        self,
        index: int,
        free: int,
        lent: Sequence[int],
        promise: Promised | None,
        now: int,
    ) -> bool:
        """Whether a job within its quota might find room by stopping others.

        Never False for one for which the engine stops somebody: room that victims give back counts
        until their end only, so that what is promised later must still find its own.
        """
        job = self._jobs[index]
        if free + sum(lent) - lent[self._number[job.tenant]] < job.gpus:
            return False
        if promise is None or job.gpus <= promise.spare:
            return True
        return now + self._policy.max_grace + job.estimate <= promise.start

    def _stays(self) -> Iterator[tuple[int, int]]:
        for index, job in self._running.items():
            yield job.ends_at, self._jobs[index].gpus

    def _seat(self, index: int) -> tuple[PlacedMember, ...]:
        """The first free GPUs of the only node: which ones makes no difference to anybody."""
        free = np.flatnonzero(self._milli)[: self._jobs[index].gpus]
        return (PlacedMember(group=0, rank=0, node=0, gpus=tuple(free.tolist())),)

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
        plan = plan_cycle(snapshot, self._policy, self._memory)
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
        return Quotas.of(
            tenants=tenants,
            cohorts=1,
            flavors=1,
            limited=[True] * (tenants + 1),
            parent=[tenants] * tenants + [-1],
            nominal=_column([*self._nominal, 0]) * PARTS_PER_GPU,
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
                self._start(decision.job, decision.members, now)
            elif isinstance(decision, Preempt):
                self._stop(decision.job, now)
                is_stopped = True
        self._holds = tuple(
            HeldDevices(hold.job, hold.keeps, hold.keeps_until)
            for hold in plan.of(Hold)
            if hold.keeps_until is not None
        )
        return is_stopped

    def _start(self, index: int, members: tuple[PlacedMember, ...], now: int) -> None:
        asked, job, course = self._pending.pop(index), self._jobs[index], self._courses[index]
        course.ends_at = now + job.runtime - course.worked
        self._running[index] = RunningJob(
            id=asked.id,
            name=asked.name,
            tenant=asked.tenant,
            groups=asked.groups,
            submitted_at=asked.submitted_at,
            walltime_seconds=asked.walltime_seconds,
            preemptible=asked.preemptible,
            preempted=asked.preempted,
            members=members,
            started_at=now,
            limit_end_at=now + job.estimate,
            checkpoint_at=now,
        )
        self._hand_over(self._running[index], free=False)
        heappush(self._ends, (course.ends_at, index))

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
