"""What happens to a world: ends, failures, cancellations, nodes that come and go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scheduling.engine.scenario import values
from scheduling.engine.scenario.survey import node_of
from scheduling.engine.scenario.world import Job, Seat, World

Event = Callable[[World, Sequence[str], int], None]


def stop_duration(world: World, job: Job) -> int:
    """How long `job` takes to be gone once it is told to stop.

    With a save, the smaller of it and of the grace, which the site limits; else what `stop` says.
    """
    if job.save is None:
        return job.stop
    return min(job.save, grace_of(world, job))


def grace_of(world: World, job: Job) -> int:
    most = world.policy.max_grace
    return most if job.grace is None else min(job.grace, most)


def finish(job: Job, state: str) -> None:
    """Let `job` end in `state`: it holds nothing any more."""
    job.state, job.seats, job.leaving, job.gone_at = state, (), (), None


def _known(world: World, name: str) -> Job:
    if name not in world.jobs:
        raise ValueError(f"there is no job {name!r}")
    return world.jobs[name]


def _end(world: World, words: Sequence[str], at: int) -> None:
    del at
    job = _known(world, words[0])
    if not job.has_ended:
        finish(job, "done")


def _fail(world: World, words: Sequence[str], at: int) -> None:
    del at
    job = _known(world, words[0])
    if not job.has_ended:
        finish(job, "failed")


def _cancel(world: World, words: Sequence[str], at: int) -> None:
    job = _known(world, words[0])
    if job.state == "waiting":
        finish(job, "cancelled")
    elif job.is_placed:
        job.is_cancelled = True
        if job.state == "running":
            job.state, job.gone_at = "stopping", at + stop_duration(world, job)


def _lose(world: World, words: Sequence[str], at: int) -> None:
    """Members of a job on some nodes are lost, those with the highest ranks first."""
    del at
    job = _known(world, words[0])
    if len(words) != 2:  # noqa: PLR2004 -- NAME PLACE
        raise ValueError("write: lose NAME 1@node")
    for _, count, node in values.place(words[1]):
        there = sorted(
            (seat for seat in job.seats if seat.node == node), key=lambda seat: -seat.rank
        )
        lose_seats(job, there[:count])


def lose_seats(job: Job, lost: Sequence[Seat]) -> None:
    """Take members away; those left are ranked anew, so that ranks have no holes."""
    left = [seat for seat in job.seats if seat not in lost]
    job.leaving = tuple(seat for seat in job.leaving if seat in left)
    ranks: dict[int, int] = {}
    seats = []
    for seat in left:
        rank = ranks.get(seat.group, 0)
        ranks[seat.group] = rank + 1
        seats.append(replace(seat, rank=rank))
    job.leaving = tuple(new for old, new in zip(left, seats, strict=True) if old in job.leaving)
    job.seats = tuple(seats)


def _remove(world: World, words: Sequence[str], at: int) -> None:
    """A node goes, with its members and with what is kept on it."""
    del at
    node = node_of(world, words[0])
    del world.nodes[node.name]
    for job in world.placed():
        lost = [seat for seat in job.seats if seat.node == node.name]
        if lost:
            lose_seats(job, lost)
    for name, keep in list(world.keeps.items()):
        if any(seat.node == node.name for seat in keep.seats):
            del world.keeps[name]
    for name, block in list(world.blocks.items()):
        left = tuple(own for own in block.amounts if own[1] != node.name)
        world.blocks[name] = replace(block, amounts=left)


def _close(world: World, words: Sequence[str], at: int) -> None:
    del at
    node_of(world, words[0]).closed = True


def _open(world: World, words: Sequence[str], at: int) -> None:
    del at
    node_of(world, words[0]).closed = False


EVENTS: Final[Mapping[str, Event]] = {
    "end": _end,
    "fail": _fail,
    "cancel": _cancel,
    "lose": _lose,
    "remove": _remove,
    "close": _close,
    "open": _open,
}
