"""A stream of jobs through the engine itself, on nodes of equal GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.jobs import Access, Group, PendingJob, Request, RunningJob
from scheduling.engine.plan import Plan
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.simulation.pool import PoolJob
from scheduling.simulation.trace import members_of

WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Site:
    """Equal nodes of equal GPUs."""

    nodes: int
    gpus_per_node: int


def run_engine(
    jobs: Sequence[PoolJob], site: Site, policy: Policy, *, check: bool = False
) -> list[int | None]:
    """When each job starts; None for one that the site can never hold.

    check: ask `violations` of every plan, and raise AssertionError for the first that is unsound.
    """
    return _Replay(jobs, site, policy, check=check).run()


class _Replay:
    def __init__(self, jobs: Sequence[PoolJob], site: Site, policy: Policy, *, check: bool) -> None:
        self._jobs = jobs
        self._site = site
        self._policy = policy
        self._check = check
        gpus = site.nodes * site.gpus_per_node
        self._milli = np.full(gpus, WHOLE_MILLI, dtype=np.int64)
        self._tenants = sorted({job.tenant for job in jobs})
        self._pending: dict[int, PendingJob] = {}
        self._running: dict[int, RunningJob] = {}
        self._ends: list[tuple[int, int]] = []
        self._starts: list[int | None] = [None] * len(jobs)

    def run(self) -> list[int | None]:
        arrivals = list(enumerate(self._jobs))
        arrivals.reverse()
        while arrivals or self._ends:
            now = min(self._instants(arrivals))
            while self._ends and self._ends[0][0] == now:
                self._end(heappop(self._ends)[1])
            while arrivals and arrivals[-1][1].submit == now:
                index, job = arrivals.pop()
                self._pending[index] = self._asked(index, job)
            self._carry_out(self._plan(now), now)
        return self._starts

    def _instants(self, arrivals: Sequence[tuple[int, PoolJob]]) -> Iterator[int]:
        if self._ends:
            yield self._ends[0][0]
        if arrivals:
            yield arrivals[-1][1].submit

    def _asked(self, index: int, job: PoolJob) -> PendingJob:
        members, gpus = members_of(job.gpus, per_member=self._site.gpus_per_node)
        request = Request(kind=Access.WHOLE, count=gpus)
        return PendingJob(
            id=index,
            name=str(index),
            tenant=self._tenants.index(job.tenant),
            groups=(Group(min_member=members, max_member=members, request=request),),
            submitted_at=job.submit,
            walltime_seconds=job.estimate,
        )

    def _plan(self, now: int) -> Plan:
        nodes, per_node = self._site.nodes, self._site.gpus_per_node
        snapshot = Snapshot.of(
            taken_at=now,
            node_ids=tuple(range(nodes)),
            node_names=tuple(f"n{node}" for node in range(nodes)),
            capacity=np.full((2, nodes), UNLIMITED),
            gpu_ids=tuple(range(nodes * per_node)),
            gpu_node=np.arange(nodes).repeat(per_node),
            gpu_index=np.tile(np.arange(per_node), nodes),
            gpu_free_milli=self._milli,
            tenant_ids=tuple(range(len(self._tenants))),
            tenant_names=tuple(self._tenants),
            pending=tuple(self._pending.values()),
            running=tuple(self._running.values()),
        )
        plan = plan_cycle(snapshot, self._policy)
        if self._check and (wrong := violations(snapshot, plan, self._policy)):
            raise AssertionError(f"unsound plan at {now} s: {wrong}")
        return plan

    def _carry_out(self, plan: Plan, now: int) -> None:
        for start in plan.starts:
            asked = self._pending.pop(start.job)
            job = self._jobs[start.job]
            self._running[start.job] = RunningJob(
                id=asked.id,
                name=asked.name,
                tenant=asked.tenant,
                groups=asked.groups,
                submitted_at=asked.submitted_at,
                walltime_seconds=asked.walltime_seconds,
                preemptible=False,
                members=start.members,
                started_at=now,
                limit_end_at=now + job.estimate,
            )
            self._milli[[gpu for member in start.members for gpu in member.gpus]] = 0
            self._starts[start.job] = now
            heappush(self._ends, (now + job.runtime, start.job))

    def _end(self, index: int) -> None:
        job = self._running.pop(index)
        self._milli[[gpu for member in job.members for gpu in member.gpus]] = WHOLE_MILLI


def estimated(jobs: Sequence[PoolJob], factor: int) -> list[PoolJob]:
    """The same jobs with estimates of `factor` times their run time."""
    return [replace(job, estimate=factor * job.runtime) for job in jobs]
