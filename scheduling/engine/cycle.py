"""One cycle: a verdict for every waiting job of one cluster."""

from scheduling.engine.charge import charges, least_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import Place, place_gang
from scheduling.engine.jobs import PendingJob, PlacedMember
from scheduling.engine.ledger import Ledger
from scheduling.engine.order import in_order
from scheduling.engine.plan import Decision, Plan, Reason, Start
from scheduling.engine.policy import Policy
from scheduling.engine.quota import Books
from scheduling.engine.reasons import Doctor, Why, hold, waits_by_itself, wish_of
from scheduling.engine.snapshot import Snapshot


def plan_cycle(snapshot: Snapshot, policy: Policy) -> Plan:
    """What to do with every waiting job now: start it and where, or let it wait and why.

    Pure: the same snapshot and policy give the same plan, byte for byte.
    """
    cycle = _Cycle(snapshot, policy)
    for job in in_order(snapshot.pending):
        cycle.decide(job)
    return Plan(snapshot.taken_at, tuple(cycle.decisions))


class _Cycle:
    """What has been decided so far, and what is left."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.fleet = Fleet(snapshot)
        self.ledger = Ledger(self.fleet)
        self.books = Books(snapshot.quotas)
        self.doctor = Doctor(snapshot)
        self.decisions: list[Decision] = []

    def decide(self, job: PendingJob) -> None:
        """Add the verdict on `job`."""
        why = waits_by_itself(job, self.snapshot.taken_at) or self._never(job) or self._quota(job)
        if why is None:
            members = self._place(job)
            if members is not None:
                self._start(job, members)
                return
            why = self.doctor.no_room(job, self.ledger, self._place_for(job).allowed)
        self.decisions.append(hold(job, why))

    def _never(self, job: PendingJob) -> Why | None:
        impossible = self.doctor.impossible(job, self.ledger)
        if impossible:
            return impossible
        asked = least_parts(job)
        limit = max(self.books.ceiling(job.tenant, flavor) for flavor in self._flavors(job))
        if asked > limit:
            return Reason.OVER_CEILING, (("limit", limit), ("asked", asked))
        return None

    def _quota(self, job: PendingJob) -> Why | None:
        asked = least_parts(job)
        left = {flavor: self.books.available(job.tenant, flavor) for flavor in self._flavors(job)}
        if not asked or max(left.values()) >= asked:
            return None
        flavor = max(left, key=lambda own: left[own])
        names = self.snapshot.tenant_names + self.snapshot.cohort_names
        at = names[self.books.exhausted_at(job.tenant, flavor)]
        free = max(0, left[flavor])
        return Reason.QUOTA_EXHAUSTED, (("at", at), ("free", free), ("asked", asked))

    def _flavors(self, job: PendingJob) -> tuple[int, ...]:
        return job.flavors or tuple(range(len(self.snapshot.flavors)))

    def _place_for(self, job: PendingJob, flavors: tuple[int, ...] = ()) -> Place:
        suitable = self.fleet.suitable(flavors or job.flavors, job.service_class)
        return Place(suitable & self.snapshot.node_open, wish_of(job))

    def _place(self, job: PendingJob) -> tuple[PlacedMember, ...] | None:
        """Members in the first acceptable flavor that has room and quota; else None."""
        asked = least_parts(job)
        allowed = [
            flavor
            for flavor in self._flavors(job)
            if not asked or self.books.available(job.tenant, flavor) >= asked
        ]
        for flavors in [(flavor,) for flavor in allowed] if job.flavors else [tuple(allowed)]:
            members = place_gang(self.ledger, job, self._place_for(job, flavors))
            if members is not None:
                return members
        return None

    def _start(self, job: PendingJob, members: tuple[PlacedMember, ...]) -> None:
        self.ledger.take(job, members)
        borrowed = False
        for flavor, parts in charges(self.fleet, job, members).items():
            self.books.charge(job.tenant, flavor, parts)
            borrowed |= self.books.borrows(job.tenant, flavor)
        self.decisions.append(Start(job.id, members, borrowed=borrowed))
