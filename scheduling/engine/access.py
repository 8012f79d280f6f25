"""Which nodes and which quota a job may use."""

from collections.abc import Iterator

from scheduling.engine.arrays import NEVER, BoolArray
from scheduling.engine.charge import charges, least_parts
from scheduling.engine.desk import Desk
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import JobSpec, PlacedMember
from scheduling.engine.quota import AnyBooks


def flavors_of(desk: Desk, job: JobSpec) -> tuple[int, ...]:
    """The flavors that `job` accepts, best first."""
    return job.flavors or tuple(range(len(desk.snapshot.flavors)))


def tiers(desk: Desk, job: JobSpec, books: AnyBooks) -> Iterator[tuple[int, ...]]:
    """Sets of flavors to try in turn, each with quota for the whole gang.

    Preferred flavors are tried one by one; where any will do, all are tried at once.
    """
    asked = least_parts(desk.fleet, job)
    open_to_it = [
        flavor
        for flavor in flavors_of(desk, job)
        if not asked or allowance(books, job, flavor) >= asked
    ]
    if job.flavors:
        yield from ((flavor,) for flavor in open_to_it)
    elif open_to_it:
        yield tuple(open_to_it)


def allowance(books: AnyBooks, job: JobSpec, flavor: int) -> int:
    """Parts that `job` may use of a flavor; of borrowed quota none, if it is not preemptible."""
    available = books.available(job.tenant, flavor)
    if job.preemptible:
        return available
    return min(available, books.within_nominal(job.tenant, flavor))


def within_quota(
    desk: Desk, job: JobSpec, members: tuple[PlacedMember, ...], books: AnyBooks
) -> bool:
    """Whether what the placed members really cost is available."""
    return all(
        parts <= allowance(books, job, flavor)
        for flavor, parts in charges(desk.fleet, job, members).items()
    )


def open_until(desk: Desk, job: JobSpec, flavors: tuple[int, ...], start: int) -> BoolArray:
    """(N,) nodes that may take `job` and stay open until it ends, if it starts at `start`."""
    closes = desk.snapshot.node_closes_at
    duration = duration_of(job, desk.policy)
    stays = closes == NEVER if duration == NEVER else closes >= start + duration
    return desk.open_nodes(job, flavors) & stays
