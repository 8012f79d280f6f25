"""Whom it would delay if a running job ran longer: by the rules of a cycle, on one snapshot."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.engine.arrays import NEVER
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.jobs import RunningJob
from scheduling.engine.plan import Reserve
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Block, Snapshot


@dataclass(frozen=True, slots=True)
class Delay:
    """A promise that could not be kept: to a waiting job, of a block, or for maintenance.

    at: when it was to begin; until: when the job could start instead, None for unknown. Seconds.
    """

    at: int
    until: int | None = None
    job: int | None = None
    block: str = ""


def delay_by(running: RunningJob, ends_at: int, snapshot: Snapshot, policy: Policy) -> Delay | None:
    """The first promise in the way of `running` until `ends_at`, if there is one."""
    later = _longer(running, ends_at, snapshot)
    known = [*_closings(running, ends_at, snapshot), *_blocks(running, ends_at, snapshot, later)]
    first = min(known, key=lambda delay: delay.at, default=None)
    return first or _promise(snapshot, later, policy)


def _longer(running: RunningJob, ends_at: int, snapshot: Snapshot) -> Snapshot:
    """The same cluster, in which the job may run until `ends_at`."""
    longer = replace(running, limit_end_at=ends_at, walltime_seconds=ends_at - running.started_at)
    others = (longer if own.id == running.id else own for own in snapshot.running)
    return replace(snapshot, running=tuple(others))


def _closings(running: RunningJob, ends_at: int, snapshot: Snapshot) -> Iterator[Delay]:
    """Maintenance of the job's nodes that it would run into and does not yet."""
    for node in {member.node for member in running.members}:
        closes_at = int(snapshot.node_closes_at[node])
        if closes_at != NEVER and running.ends_at <= closes_at < ends_at:
            yield Delay(closes_at)


def _blocks(
    running: RunningJob, ends_at: int, snapshot: Snapshot, later: Snapshot
) -> Iterator[Delay]:
    """Blocks that begin meanwhile and would find fewer of their GPUs."""
    for block in snapshot.blocks:
        is_meanwhile = running.ends_at <= block.from_at < ends_at
        if is_meanwhile and _missing(block, later) > _missing(block, snapshot):
            yield Delay(block.from_at, block=block.name)


def _missing(block: Block, snapshot: Snapshot) -> int:
    """How many of the block's GPUs others' jobs may still hold when it begins."""
    held: Counter[int] = Counter()
    for job in snapshot.running:
        if job.ends_at > block.from_at and job.tenant != block.tenant:
            for member in job.members:
                held[member.node] += len(member.gpus)
    there = {node: int((snapshot.gpu_node == node).sum()) for node, _ in block.amounts}
    return sum(max(0, gpus + held[node] - there[node]) for node, gpus in block.amounts)


def _promise(snapshot: Snapshot, later: Snapshot, policy: Policy) -> Delay | None:
    """The first reservation of a cycle at this moment that it would not make in `later`."""
    promised = sorted(plan_cycle(snapshot, policy).of(Reserve), key=lambda own: own.start_at)
    if not promised:
        return None
    plan = plan_cycle(later, policy)
    starts = {own.job: own.start_at for own in plan.of(Reserve)}
    starts |= {own.job: plan.taken_at for own in plan.starts}
    for own in promised:
        if own.job not in starts or starts[own.job] > own.start_at:
            return Delay(own.start_at, until=starts.get(own.job), job=own.job)
    return None
