"""When a blocked job will start at the latest, and where: its reservation."""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.engine.access import allowance, open_until, tiers
from scheduling.engine.arrays import NEVER
from scheduling.engine.charge import charges
from scheduling.engine.desk import Desk
from scheduling.engine.gang import Place, amounts_of, fits_gang, place_gang, wish_of
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import Access, JobSpec, PendingJob, PlacedMember
from scheduling.engine.plan import Reserve
from scheduling.engine.promises import Promise, Promises

MOST_INSTANTS = 256
"""Instants looked at once the gang fits but promises or windows are in its way."""


@dataclass(frozen=True, slots=True)
class Chance:
    """The earliest place of a job, in one set of flavors."""

    start: int
    members: tuple[PlacedMember, ...]
    flavors: tuple[int, ...]


def earliest(desk: Desk, job: PendingJob) -> Chance | None:
    """The earliest instant at which everything fits, with running jobs ending at their limits.

    They give back room and quota together.
    """
    chances = [
        chance
        for flavors, since in _with_quota(desk, job)
        if (chance := _earliest_in(desk, job, flavors, since)) is not None
    ]
    return min(chances, key=lambda chance: chance.start, default=None)


def is_crowded_out(desk: Desk, job: PendingJob) -> bool:
    """Whether the quota that `job` lacks is its cohort's, which others give back as they end."""
    tenants, claim, books = len(desk.snapshot.tenant_ids), desk.claim(job), desk.soon_books
    return any(
        books.exhausted_at(job.tenant, flavor) >= tenants
        and (job.preemptible or books.within_nominal(job.tenant, flavor) >= claim.parts)
        for flavor in claim.flavors
    )


def _with_quota(desk: Desk, job: PendingJob) -> Iterator[tuple[tuple[int, ...], int]]:
    """Sets of flavors to try in turn, and from when on there is quota for each."""
    now = tiers(desk, job, desk.soon_books)
    for flavors in now:
        yield flavors, desk.at
    for flavor in () if now else desk.claim(job).flavors:
        since = _quota_returns(desk, job, flavor)
        if since is not None:
            yield (flavor,), since


def _quota_returns(desk: Desk, job: PendingJob, flavor: int) -> int | None:
    """When enough running jobs have ended at the latest for `job` to have quota; None for never."""
    books, claim = desk.soon_books.fork(), desk.claim(job)
    for stay in desk.horizon.by_end():
        for own, parts in charges(desk.fleet, stay.job, stay.members).items():
            books.charge(stay.job.tenant, own, -parts)
        if allowance(books, claim, flavor) >= claim.parts:
            return stay.end
    return None


def promise(desk: Desk, job: PendingJob, chance: Chance) -> Reserve:
    """Promise `job` the place; returns the decision that says so."""
    duration = duration_of(job, desk.policy)
    made = Promise(
        owner=job.id,
        name=job.name,
        start=chance.start,
        end=NEVER if duration == NEVER else chance.start + duration,
        amounts=amounts_of(desk.fleet, job, chance.members),
        flavors=chance.flavors,
    )
    desk.promise(made, desk.horizon.at(desk.soon, chance.start).amounts())
    return reserve_decision(job, chance.start, chance.members)


def reserve_decision(job: JobSpec, start: int, members: tuple[PlacedMember, ...]) -> Reserve:
    """The decision that promises `job` these places; of its GPUs those that it will hold whole."""
    whole = [group.request.kind == Access.WHOLE for group in job.groups]
    nodes = sorted({member.node for member in members})
    amounts = tuple(
        (
            node,
            sum(member.node == node for member in members),
            sum(len(own.gpus) for own in members if own.node == node and whole[own.group]),
        )
        for node in nodes
    )
    return Reserve(job.id, start, amounts)


def waits_for(desk: Desk, job: PendingJob) -> int | None:
    """The job that never ends whose end would make room for `job` at last; None if none would."""
    ends = desk.horizon.ends()
    ledger = desk.horizon.at(desk.soon, ends[-1] if ends else desk.at)
    place = Place(desk.open_nodes(job, ()), desk.claim(job).wish)
    for stay in desk.horizon.endless():
        ledger.release(stay.job, stay.members)
        if fits_gang(ledger, job, place):
            return stay.job.id
    return None


def move_promises(desk: Desk, job: PendingJob, members: tuple[PlacedMember, ...]) -> bool:
    """Place all promises anew, at the same instants, with `job` in place; False if one is lost."""
    horizon, soon = desk.horizon.fork(), desk.view(job)[1].fork()
    if job.id in desk.kept:
        horizon.drop(job.id)
    soon.take(job, members)
    horizon.add(job, members, desk.until(job))
    moved, decisions = Promises(), {}
    for old in desk.promises.all:
        if old.owner is None:
            return False
        owner = desk.job(old.owner)
        ledger = horizon.at(soon, old.start)
        place = Place(
            open_until(desk, owner, old.flavors, old.start),
            wish_of(owner, desk.at),
            moved.window(ledger.amounts(), old.start, old.end),
        )
        placed = place_gang(ledger, owner, place)
        if placed is None:
            return False
        amounts = amounts_of(desk.fleet, owner, placed)
        new = Promise(owner.id, old.name, old.start, old.end, amounts, flavors=old.flavors)
        moved.add(new, ledger.amounts())
        decisions[owner.id] = reserve_decision(owner, old.start, placed)
    moved.give(amounts_of(desk.fleet, job, members), desk.until(job))
    desk.move_promises(moved)
    desk.reserved |= decisions
    return True


def _earliest_in(
    desk: Desk, job: PendingJob, flavors: tuple[int, ...], since: int
) -> Chance | None:
    ends = [end for end in desk.horizon.ends() if end >= since]
    first = _first_fitting(desk, job, flavors, ends)
    if first is None:
        return None
    for instant in _instants(desk, ends, first):
        members = _members_at(desk, job, flavors, instant)
        if members is not None:
            return Chance(instant, members, flavors)
    return None


def _first_fitting(
    desk: Desk, job: PendingJob, flavors: tuple[int, ...], ends: list[int]
) -> int | None:
    """The first of `ends` by which enough is free, promises and windows apart: more comes free."""
    place = Place(desk.open_nodes(job, flavors), desk.claim(job).wish)

    def fits(instant: int) -> bool:
        return fits_gang(desk.horizon.at(desk.soon, instant), job, place)

    if not ends or not fits(ends[-1]):
        return None
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(ends[middle]) else (middle + 1, high)
    return ends[low]


def _instants(desk: Desk, ends: list[int], first: int) -> Iterator[int]:
    """Instants from `first` on at which something comes free or a promise is over."""
    over = {promise.end for promise in desk.promises.all if first < promise.end < NEVER}
    later = sorted({own for own in ends if own >= first} | over)
    yield from later[:MOST_INSTANTS]


def _members_at(
    desk: Desk, job: PendingJob, flavors: tuple[int, ...], instant: int
) -> tuple[PlacedMember, ...] | None:
    """Where `job` fits from `instant` on for its whole walltime, beside what is promised."""
    ledger = desk.horizon.at(desk.soon, instant)
    duration = duration_of(job, desk.policy)
    end = NEVER if duration == NEVER else instant + duration
    within = None
    if desk.promises.all:
        within = desk.promises.window(ledger.amounts(), instant, end)
    allowed = open_until(desk, job, flavors, instant)
    if not allowed.any():
        return None
    return place_gang(ledger, job, Place(allowed, desk.claim(job).wish, within))


def count_reserved(desk: Desk, flavors: tuple[int, ...]) -> int:
    """Reservations of jobs so far in the flavor, of these, that has the most."""
    reserved = desk.reservations()
    return max((reserved[flavor] for flavor in flavors), default=0)
