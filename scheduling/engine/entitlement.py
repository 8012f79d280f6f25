"""Who is entitled to what: quota as a plan uses it up, and whose room may be taken."""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Self

from scheduling.engine.charge import charges, least_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import JobSpec, PendingJob, PlacedMember, RunningJob
from scheduling.engine.policy import Policy
from scheduling.engine.quota import Books
from scheduling.engine.snapshot import Quotas

Members = tuple[PlacedMember, ...]
Keeper = tuple[PendingJob, Members]
"""A waiting job and what is kept for it."""


class Usage:
    """What tenants use; and the same without what elastic gangs got above their minimum.

    A gang grows when all else is decided, but its start says so from the first.
    """

    def __init__(self, fleet: Fleet, quotas: Quotas) -> None:
        self._fleet = fleet
        self.books = Books(quotas)
        self.firm = Books(quotas)

    def fork(self) -> Self:
        """A copy that goes its own way."""
        twin = copy(self)
        twin.books, twin.firm = self.books.fork(), self.firm.fork()
        return twin

    def charge(self, job: JobSpec, members: Members) -> None:
        """Count what members use from now on."""
        used = charges(self._fleet, job, members)
        least = least_parts(self._fleet, job) if used and isinstance(job, PendingJob) else 0
        for flavor, parts in used.items():
            self.books.charge(job.tenant, flavor, parts)
            self.firm.charge(job.tenant, flavor, min(parts, least))

    def give_back(self, job: RunningJob, members: Members, *, sign: int = 1) -> None:
        """Count members of the snapshot as gone; with sign -1, as there again."""
        for flavor, parts in charges(self._fleet, job, members).items():
            self.books.charge(job.tenant, flavor, -sign * parts)
            self.firm.charge(job.tenant, flavor, -sign * parts)

    def exceeded(self, job: JobSpec, members: Members) -> Iterator[str]:
        """What is wrong with giving `job` these members."""
        for flavor, parts in charges(self._fleet, job, members).items():
            if parts > self.books.available(job.tenant, flavor):
                yield f"job {job.id} exceeds the quota of its tenant"
            elif not job.preemptible and parts > self.firm.within_nominal(job.tenant, flavor):
                yield f"job {job.id} is not preemptible and borrows"

    def reclaims(self, claimant: PendingJob, job: RunningJob, kept: Iterable[Keeper]) -> bool:
        """Whether the tenant of `job` uses what is lent to it, and the claimant's what it owns.

        kept: counts as used by those that it is kept for.
        """
        books, firm = self.books, self.firm
        if claimant.tenant == job.tenant or books.root(claimant.tenant) != books.root(job.tenant):
            return False
        more: Counter[int] = Counter()
        for keeper, members in kept:
            if keeper.tenant == job.tenant:
                more.update(charges(self._fleet, keeper, members))
        is_lent = books.is_limited(job.tenant) and any(
            books.within_nominal(job.tenant, flavor) < more[flavor]
            for flavor in charges(self._fleet, job, job.members)
        )
        asked, known = least_parts(self._fleet, claimant), range(len(self._fleet.snapshot.flavors))
        owned = books.is_limited(claimant.tenant) and any(
            firm.within_nominal(claimant.tenant, flavor) >= asked
            for flavor in claimant.flavors or known
        )
        return is_lent and owned


def outranks(policy: Policy, claimant: JobSpec, job: JobSpec) -> bool:
    """Whether `claimant` is more urgent than `job`, in its tenant or from where that counts."""
    if claimant.priority <= job.priority:
        return False
    across = policy.across
    return claimant.tenant == job.tenant or (across is not None and claimant.priority >= across)


def is_protected(policy: Policy, job: RunningJob, at: int) -> bool:
    """Whether nobody may stop `job`: fixed, too young, protected, or stopped too often."""
    until = max(job.protected_until, job.started_at + policy.min_run)
    often = job.preempted >= policy.max_preemptions
    return not job.preemptible or often or until > at
