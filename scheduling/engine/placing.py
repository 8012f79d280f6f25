"""Whether a job can start now, and where: room, quota, windows, and what is promised to others."""

from dataclasses import dataclass, field, replace

import numpy as np

from scheduling.engine.access import open_until, tiers, within_quota
from scheduling.engine.arrays import NEVER, IntArray
from scheduling.engine.charge import least_cost_nodes
from scheduling.engine.desk import Desk
from scheduling.engine.gang import Place, amounts_of, fits_gang, place_gang
from scheduling.engine.jobs import PendingJob, PlacedMember
from scheduling.engine.ledger import Ledger
from scheduling.engine.promises import Promise, nodes_of
from scheduling.engine.quota import AnyBooks
from scheduling.engine.reserve import move_promises
from scheduling.engine.snapshot import UNKNOWN

Members = tuple[PlacedMember, ...]
Attempt = tuple[tuple[tuple[int, ...], ...], int, int]
"""Sets of flavors with quota, kind of demand, tenant."""


@dataclass(slots=True)
class Memory:
    """What was tried in vain. Room only shrinks while `Desk.roomier` stands still.

    full: kinds of demand that fit nowhere. delayed: kinds, in given flavors, that would delay a
    promise if they ended at that instant or later.
    """

    roomier: int = -1
    full: set[int] = field(default_factory=set)
    delayed: dict[Attempt, int] = field(default_factory=dict)


class Placer:
    """Finds where jobs start, and does not look twice for equal ones."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._memory = Memory()

    def find(self, job: PendingJob) -> Members | None:
        """Where `job` starts now, or None."""
        desk = self._desk
        books = desk.quota_now(job)
        if job.id in desk.kept:
            now, _ = desk.view(job)
            return self.find_on(now, job, books)
        attempt = self._attempt(job, books)
        if not attempt[0] or self._is_known_full(job):
            return None
        until, delayed = desk.until(job), self._memory.delayed
        if until >= delayed.get(attempt, NEVER + 1):
            return None
        members = self.find_on(desk.ledger, job, books)
        if members is None and not self.is_full(job):
            delayed[attempt] = min(until, delayed.get(attempt, NEVER))
        return members

    def is_full(self, job: PendingJob) -> bool:
        """Whether nowhere in what is free now has `job` room, quota and promises apart."""
        if self._is_known_full(job):
            return True
        desk = self._desk
        place = Place(desk.open_nodes(job, ()), desk.claim(job).wish)
        if fits_gang(desk.ledger, job, place):
            return False
        self._memory.full.add(desk.kind(job))
        return True

    def is_out_of_question(self, job: PendingJob) -> bool:
        """Whether quota or room, whatever is promised, are known to refuse `job`."""
        return not tiers(self._desk, job, self._desk.quota_now(job)) or self._is_known_full(job)

    def _is_known_full(self, job: PendingJob) -> bool:
        if self._memory.roomier != self._desk.roomier:
            self._memory = Memory(self._desk.roomier)
        return self._desk.kind(job) in self._memory.full

    def _attempt(self, job: PendingJob, books: AnyBooks) -> Attempt:
        """What an attempt depends on: of the tenant only if its quota or a block may decide."""
        desk = self._desk
        claim = desk.claim(job)
        tenant = UNKNOWN if claim.is_exact and not desk.snapshot.blocks else job.tenant
        return tiers(desk, job, books), claim.kind, tenant

    def find_on(
        self, ledger: Ledger, job: PendingJob, books: AnyBooks, *, start: int | None = None
    ) -> Members | None:
        """Where on `ledger` the gang fits, with quota in `books`, delaying no promise.

        start: when it would start at the latest, if not now. What starts now may make promises
        move to other nodes, at the same instants.
        """
        desk = self._desk
        claim, end = desk.claim(job), desk.until(job, start=start)
        for flavors in tiers(desk, job, books):
            place = Place(desk.open_until(job, flavors, end), claim.wish)
            members = self._beside_promises(ledger, job, place, start=start)
            if members is None or claim.is_exact or within_quota(desk, job, members, books):
                chosen = members
            else:
                chosen = self._cheaper(ledger, job, place, books, start=start)
            if chosen is not None:
                return chosen
        return None

    def fits_on(
        self, ledger: Ledger, job: PendingJob, books: AnyBooks, *, start: int | None = None
    ) -> bool:
        """Whether `find_on` finds a place, without choosing devices where nothing is promised."""
        desk = self._desk
        claim = desk.claim(job)
        if desk.promises.all or not claim.is_exact:
            return self.find_on(ledger, job, books, start=start) is not None
        end = desk.until(job, start=start)
        return any(
            fits_gang(ledger, job, Place(desk.open_until(job, flavors, end), claim.wish))
            for flavors in tiers(desk, job, books)
        )

    def _cheaper(
        self,
        ledger: Ledger,
        job: PendingJob,
        place: Place,
        books: AnyBooks,
        *,
        start: int | None,
    ) -> Members | None:
        """A place on devices that cost least, where the quota does not last for better ones."""
        desk = self._desk
        cheap = replace(place, allowed=place.allowed & least_cost_nodes(desk.fleet, job))
        members = self._beside_promises(ledger, job, cheap, start=start)
        if members is None or not within_quota(desk, job, members, books):
            return None
        return members

    def _beside_promises(
        self, ledger: Ledger, job: PendingJob, place: Place, *, start: int | None
    ) -> Members | None:
        desk = self._desk
        until = desk.until(job, start=start)
        others = desk.promises.against(NEVER, job.tenant)
        if not others:
            return place_gang(ledger, job, place)
        outside = place.allowed & ~nodes_of(others, desk.fleet.nodes)
        members = place_gang(ledger, job, replace(place, allowed=outside))
        if members is not None:
            return members
        within = desk.promises.within(until, job.tenant)
        members = place_gang(ledger, job, replace(place, within=within))
        if members is not None or start is not None:
            return members
        return self._beside_moved(ledger, job, place)

    def _beside_moved(self, ledger: Ledger, job: PendingJob, place: Place) -> Members | None:
        """A place where promises must move to other nodes, at the same instants."""
        desk = self._desk
        until = desk.until(job)
        met = desk.promises.against(until, job.tenant)
        if desk.fleet.nodes == 1 or any(promise.owner is None for promise in met):
            return None
        members = place_gang(ledger, job, place)
        if members is None:
            return None
        amounts = amounts_of(desk.fleet, job, members)
        if any((_total(promise.spare) < _total(amounts)).any() for promise in met):
            return None
        return members if move_promises(desk, job, members) else None


def _total(amounts: IntArray) -> IntArray:
    total: IntArray = np.minimum(amounts, 1 << 40).sum(axis=1)
    return total


def blocking_promise(desk: Desk, job: PendingJob, ledger: Ledger) -> Promise | None:
    """The first promise without which `job` would fit, or the first of all that it meets."""
    met = desk.promises.against(desk.until(job), job.tenant)
    for promise in met:
        place = Place(
            open_until(desk, job, (), desk.at), desk.claim(job).wish, within=promise.spare
        )
        if not fits_gang(ledger, job, place):
            return promise
    return met[0] if met else None
