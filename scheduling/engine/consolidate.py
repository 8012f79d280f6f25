"""Moves of running jobs that would make room in one place for a waiting job: a proposal, costed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.access import open_until
from scheduling.engine.arrays import NEVER, BoolArray
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.desk import Desk
from scheduling.engine.fit import member_slots
from scheduling.engine.gang import Place, fits_gang, place_gang, place_members, wish_of
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import PendingJob, PlacedMember, RunningJob
from scheduling.engine.ledger import Ledger
from scheduling.engine.plan import Reason
from scheduling.engine.policy import Policy
from scheduling.engine.preemption import work_lost
from scheduling.engine.snapshot import PARTS_PER_GPU, Snapshot

HOUR = 3600
USUAL_RUN = 4 * HOUR
"""What a job without a walltime is taken to gain, in seconds of its GPUs."""


@dataclass(frozen=True, slots=True)
class Move:
    """A running job and where it would go on from its last checkpoint."""

    job: int
    members: tuple[PlacedMember, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that let a waiting job start. Both in GPU-seconds."""

    job: int
    moves: tuple[Move, ...]
    gained: int
    lost: int


def propose_moves(snapshot: Snapshot, policy: Policy) -> tuple[Proposal, ...]:
    """For each waiting job that is kept out by fragmentation alone: the cheapest moves that help.

    Only moves that gain more than they lose, each proposal by itself, in the order of the queue.
    """
    desk = Desk(snapshot, policy)
    plan = plan_cycle(snapshot, policy)
    found = []
    for hold in plan.holds:
        if hold.reason == Reason.FRAGMENTED:
            proposal = _proposal(desk, desk.job(hold.job))
            if proposal is not None and proposal.gained > proposal.lost:
                found.append(proposal)
    return tuple(found)


def _proposal(desk: Desk, job: PendingJob) -> Proposal | None:
    """Nodes are emptied one after the other, the cheapest first, until the gang fits."""
    ledger = desk.ledger.fork()
    place = Place(open_until(desk, job, (), desk.at), wish_of(job, desk.at))
    emptied = np.zeros(desk.fleet.nodes, dtype=np.bool_)
    moves: list[Move] = []
    lost = 0
    while not fits_gang(ledger, job, place):
        cheapest = min(
            _ways(desk, ledger, job, place.allowed & ~emptied),
            key=lambda own: own[:2],
            default=None,
        )
        if cheapest is None:
            return None
        cost, node, step = cheapest
        emptied[node] = True
        lost += cost
        for move in step:
            running = desk.running[move.job]
            ledger.release(running, _places_now(running, moves))
            ledger.take(running, move.members)
            moves = [own for own in moves if own.job != move.job] + [move]
    duration = duration_of(job, desk.policy)
    members = place_gang(ledger, job, place) or ()
    gpus = sum(len(member.gpus) for member in members)
    gained = gpus * (USUAL_RUN if duration == NEVER else duration)
    return Proposal(job.id, tuple(moves), gained, lost // PARTS_PER_GPU)


def _ways(
    desk: Desk, ledger: Ledger, job: PendingJob, allowed: BoolArray
) -> Iterator[tuple[int, int, list[Move]]]:
    """(work lost, node, moves) of each node that can be given one more member of `job`."""
    request = job.groups[0].request
    before = member_slots(ledger, job, request)
    for node in np.flatnonzero(allowed).tolist():
        leaving = sorted(
            (own for own in desk.running.values() if _is_movable(own, node)),
            key=lambda own: (work_lost(desk, own), own.id),
        )
        what_if, moves, cost = ledger.fork(), [], 0
        for running in leaving:
            others = allowed.copy()
            others[node] = False
            elsewhere = _elsewhere(desk, what_if, running, others)
            if elsewhere is None:
                continue
            what_if.release(running, running.members)
            what_if.take(running, elsewhere)
            moves.append(Move(running.id, elsewhere))
            cost += work_lost(desk, running)
            if member_slots(what_if, job, request)[node] > before[node]:
                yield cost, node, moves
                break


def _is_movable(job: RunningJob, node: int) -> bool:
    """Whether a job lies on this node alone, may be stopped, and has a checkpoint to go on from."""
    on_node = all(member.node == node for member in job.members)
    return on_node and job.preemptible and job.checkpoint_at is not None


def _elsewhere(
    desk: Desk, ledger: Ledger, job: RunningJob, others: BoolArray
) -> tuple[PlacedMember, ...] | None:
    """Where the same members fit on the other nodes, the fullest first."""
    allowed = desk.open_nodes(job, ()) & others
    groups = range(len(job.groups))
    counts = [sum(member.group == group for member in job.members) for group in groups]
    return place_members(ledger, job, counts, place=Place(allowed, wish_of(job, desk.at)))


def _places_now(job: RunningJob, moves: Sequence[Move]) -> tuple[PlacedMember, ...]:
    """Where a job lies after the moves so far."""
    return next((own.members for own in moves if own.job == job.id), job.members)
