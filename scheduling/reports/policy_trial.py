"""What a recorded cycle would have decided under another policy."""

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from scheduling.engine.codec import decode
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.plan import Plan, Preempt
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Cycle, Job
from topology.models import Cluster


@dataclass(frozen=True, slots=True)
class TriedJob:
    """public_id: empty where the job is no longer known."""

    name: str
    public_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One recorded cycle under two policies. at: cluster clock.

    starts: how many jobs would start, with the one and with the other. gained, lost: jobs that
    only the other would start, and that only the one would. spared, stopped: the same of jobs that
    would be stopped.
    """

    at: datetime
    waiting: int
    starts: tuple[int, int]
    gained: tuple[TriedJob, ...]
    lost: tuple[TriedJob, ...]
    spared: tuple[TriedJob, ...]
    stopped: tuple[TriedJob, ...]

    @property
    def is_same(self) -> bool:
        return not (self.gained or self.lost or self.spared or self.stopped)


def try_policy(cluster: Cluster, before: Policy, after: Policy) -> Trial | None:
    """The newest cycle of which the snapshot was kept, planned with both; None without any.

    Past use and budgets are those that the cycle saw. Two queries, and the time of two cycles.
    """
    cycle = (
        Cycle.objects.filter(cluster=cluster)
        .exclude(snapshot=b"")
        .only("at", "snapshot")
        .order_by("-pk")
        .first()
    )
    if cycle is None:
        return None
    snapshot = decode(zlib.decompress(cycle.snapshot), Snapshot)
    one, other = plan_cycle(snapshot, before), plan_cycle(snapshot, after)
    started = [_started(plan) for plan in (one, other)]
    stopped = [_stopped(plan) for plan in (one, other)]
    differing = (started[0] ^ started[1]) | (stopped[0] ^ stopped[1])
    known = {job.pk: job for job in Job.objects.filter(pk__in=differing).only("public_id", "name")}
    names = {job.id: job.name for job in (*snapshot.pending, *snapshot.running)}

    def jobs(ids: Collection[int]) -> tuple[TriedJob, ...]:
        return tuple(
            TriedJob(known[pk].name, known[pk].public_id) if pk in known else TriedJob(names[pk])
            for pk in sorted(ids)
        )

    return Trial(
        at=cycle.at,
        waiting=len(snapshot.pending),
        starts=(len(started[0]), len(started[1])),
        gained=jobs(started[1] - started[0]),
        lost=jobs(started[0] - started[1]),
        spared=jobs(stopped[0] - stopped[1]),
        stopped=jobs(stopped[1] - stopped[0]),
    )


def _started(plan: Plan) -> set[int]:
    return {start.job for start in plan.starts}


def _stopped(plan: Plan) -> set[int]:
    return {stop.job for stop in plan.of(Preempt)}
