"""Which nodes and which quota a job may use."""

from scheduling.engine.arrays import BoolArray
from scheduling.engine.charge import charges
from scheduling.engine.claims import Claim
from scheduling.engine.desk import Desk
from scheduling.engine.jobs import JobSpec, PendingJob, PlacedMember
from scheduling.engine.quota import AnyBooks


def tiers(desk: Desk, job: PendingJob, books: AnyBooks) -> tuple[tuple[int, ...], ...]:
    """Sets of flavors to try in turn, each with quota for the whole gang.

    Preferred flavors are tried one by one, then together; where any will do, all are tried at once.
    """
    claim = desk.claim(job)
    open_to_it = tuple(
        flavor
        for flavor in claim.flavors
        if not claim.parts or allowance(books, claim, flavor) >= claim.parts
    )
    alone = tuple((flavor,) for flavor in open_to_it) if job.flavors else ()
    return alone if not open_to_it or alone == (open_to_it,) else (*alone, open_to_it)


def allowance(books: AnyBooks, job: JobSpec | Claim, flavor: int) -> int:
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
    return desk.open_until(job, flavors, desk.until(job, start=start))
