"""In which order waiting jobs are looked at."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from scheduling.engine.desk import Claim, Desk
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import JobSpec, PendingJob
from scheduling.engine.policy import Order, Policy
from scheduling.engine.share import Shares

Key = tuple[object, ...]


def in_order(pending: Iterable[PendingJob]) -> list[PendingJob]:
    """Urgent first, then oldest; the id last, so that a tie has one answer."""
    return sorted(pending, key=urgency)


def urgency(job: JobSpec) -> tuple[int, int, int]:
    """The smaller, the earlier: priority, then submit time, then id."""
    return -job.priority, job.submitted_at, job.id


def expansion(job: PendingJob, policy: Policy, at: int) -> float:
    """How much longer than its walltime a job takes in all if it starts now.

    Quotients of whole numbers are rounded alike everywhere, so they order jobs as well as fractions
    do, and far faster.
    """
    walltime = max(1, min(duration_of(job, policy), policy.aging_walltime))
    return (at - job.submitted_at + walltime) / walltime


class Queue:
    """The waiting jobs of a cycle in the order of its policy, which may change as jobs start."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._changed: set[int] = set()
        tenants = range(len(desk.snapshot.tenant_ids))
        self._root = [desk.books.root(tenant) for tenant in tenants]

    def __iter__(self) -> Iterator[PendingJob]:
        desk = self._desk
        pending = desk.snapshot.pending
        if desk.policy.order == Order.FAIR:
            return self._fair(pending)
        if desk.policy.order == Order.EXPANSION:
            largest_first = sorted(
                pending, key=lambda job: (-expansion(job, desk.policy, desk.at), *urgency(job))
            )
            return iter(largest_first)
        return iter(in_order(pending))

    def started(self, job: PendingJob) -> None:
        """Tell the queue that the shares of the tenant of `job` have changed."""
        self._changed.add(job.tenant)

    def _fair(self, pending: Iterable[PendingJob]) -> Iterator[PendingJob]:
        """Always the next job of the tenant that is the most entitled to one."""
        lines: dict[int, _Line] = {}
        for job in in_order(pending):
            lines.setdefault(job.tenant, _Line(self._desk)).jobs.append(job)
        shares = Shares(self._desk.snapshot, self._desk.books, self._desk.policy.history_weight)
        asked = dict.fromkeys(lines, 0)  # an entry of the heap counts if it was the last asked for
        heap = [(lines[tenant].key(shares), tenant, 0) for tenant in sorted(lines)]
        heapify(heap)
        while heap:
            _, tenant, number = heappop(heap)
            if number != asked[tenant]:
                continue
            yield lines[tenant].pop()
            changed, self._changed = self._affected(self._changed), set()
            for other in sorted({tenant, *changed} & lines.keys()):
                asked[other] += 1
                if lines[other]:
                    heappush(heap, (lines[other].key(shares), other, asked[other]))

    def _affected(self, tenants: set[int]) -> set[int]:
        """Tenants whose place may change with these: those under the same root."""
        if not tenants or len(set(self._root)) == 1:
            return tenants
        roots = {self._root[tenant] for tenant in tenants}
        return {tenant for tenant, root in enumerate(self._root) if root in roots}


class _Line:
    """The waiting jobs of one tenant: those within its nominal quota, then those that borrow."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.jobs: deque[PendingJob] = deque()
        self._borrowers: deque[PendingJob] = deque()

    def __bool__(self) -> bool:
        return bool(self.jobs or self._borrowers)

    def key(self, shares: Shares) -> Key:
        """Within nominal before borrowing; lowest share after admission; then urgency."""
        desk = self._desk
        while self.jobs and _needs_loan(desk, desk.claim(self.jobs[0])):
            self._borrowers.append(self.jobs.popleft())
        job = self.jobs[0] if self.jobs else self._borrowers[0]
        claim = desk.claim(job)
        path = shares.path(job.tenant, _cheapest_flavor(desk, claim), claim.parts)
        return (not self.jobs, path, *urgency(job))

    def pop(self) -> PendingJob:
        """The job that `key` was about."""
        return self.jobs.popleft() if self.jobs else self._borrowers.popleft()


def _needs_loan(desk: Desk, claim: Claim) -> bool:
    within = desk.books.within_nominal
    return all(within(claim.tenant, flavor) < claim.parts for flavor in claim.flavors)


def _cheapest_flavor(desk: Desk, claim: Claim) -> int:
    """The best flavor that may be used within nominal, or else the one with the most left."""
    flavors = claim.flavors
    left = [desk.books.within_nominal(claim.tenant, flavor) for flavor in flavors]
    enough = [flavor for flavor, own in zip(flavors, left, strict=True) if own >= claim.parts]
    return enough[0] if enough else flavors[left.index(max(left))]
