"""In which order waiting jobs are looked at."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from scheduling.engine.claims import Claim
from scheduling.engine.desk import Desk
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import JobSpec, PendingJob
from scheduling.engine.policy import Order, Policy
from scheduling.engine.share import Path, Shares

Urgency = tuple[int, int, int]
Standing = tuple[bool, Path]
"""Whether a claim must borrow, and its tenant's share once it is met."""
Key = tuple[bool, Path, int]
Waiting = tuple[int, Claim, PendingJob]
"""A job with what its turn hangs on: its place among all by urgency, and what it asks for."""


def in_order(pending: Iterable[PendingJob]) -> list[PendingJob]:
    """Urgent first, then oldest; the id last, so that a tie has one answer."""
    return sorted(pending, key=urgency)


def urgency(job: JobSpec) -> Urgency:
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
            return iter(sorted(pending, key=self._impatience))
        return iter(in_order(pending))

    def started(self, job: PendingJob) -> None:
        """Tell the queue that the shares of the tenant of `job` have changed."""
        self._changed.add(job.tenant)

    def _impatience(self, job: PendingJob) -> tuple[int, float, int, int]:
        """The smaller, the earlier: priority, then the largest expansion, then who came first."""
        desk = self._desk
        return -job.priority, -expansion(job, desk.policy, desk.at), job.submitted_at, job.id

    def _fair(self, pending: Iterable[PendingJob]) -> Iterator[PendingJob]:
        """Always the next job of the tenant that is the most entitled to one."""
        desk = self._desk
        standings = _Standings(desk)
        lines: dict[int, _Line] = {}
        for place, job in enumerate(in_order(pending)):
            if job.tenant not in lines:
                lines[job.tenant] = _Line(standings)
            lines[job.tenant].within.append((place, desk.claim(job), job))
        asked = dict.fromkeys(lines, 0)  # an entry of the heap counts if it was the last asked for
        heap = [(lines[tenant].key(), tenant, 0) for tenant in sorted(lines)]
        heapify(heap)
        while heap:
            _, tenant, number = heappop(heap)
            if number != asked[tenant]:
                continue
            line = lines[tenant]
            yield line.pop()
            if not self._changed:
                if line:
                    heappush(heap, (line.key(), tenant, number))
                continue
            standings.clear()
            affected = lines.keys() & ({tenant} | self._affected(self._changed))
            self._changed = set()
            for other in affected:
                asked[other] += 1
                if lines[other]:
                    heappush(heap, (lines[other].key(), other, asked[other]))

    def _affected(self, tenants: set[int]) -> set[int]:
        """Tenants whose place may change with these: those under the same root."""
        if not tenants or len(set(self._root)) == 1:
            return tenants
        roots = {self._root[tenant] for tenant in tenants}
        return {tenant for tenant, root in enumerate(self._root) if root in roots}


class _Line:
    """The waiting jobs of one tenant: those within its nominal quota, then those that borrow."""

    def __init__(self, standings: "_Standings") -> None:
        self._standings = standings
        self.within: deque[Waiting] = deque()
        self._borrowers: deque[Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self.within or self._borrowers)

    def key(self) -> Key:
        """Within nominal before borrowing; lowest share after admission; then urgency."""
        while self.within:
            place, claim, _ = first = self.within[0]
            must_borrow, path = self._standings[claim]
            if not must_borrow:
                return False, path, place
            self.within.popleft()
            self._borrowers.append(first)
        place, claim, _ = self._borrowers[0]
        return True, self._standings[claim][1], place

    def pop(self) -> PendingJob:
        """The job that `key` was about."""
        return (self.within or self._borrowers).popleft()[2]


class _Standings(dict[Claim, Standing]):
    """How entitled tenants are to what they ask for; to be cleared whenever quota is used."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._books = desk.books
        self._shares = Shares(desk.snapshot, desk.books, desk.policy.history_weight)

    def __missing__(self, claim: Claim) -> Standing:
        """In the best flavor within nominal, or else in the one with the most left."""
        tenant, flavors = claim.tenant, claim.flavors
        left = [self._books.within_nominal(tenant, flavor) for flavor in flavors]
        enough = [flavor for flavor, own in zip(flavors, left, strict=True) if own >= claim.parts]
        flavor = enough[0] if enough else flavors[left.index(max(left))]
        standing = not enough, self._shares.path(tenant, {flavor: claim.parts})
        self[claim] = standing
        return standing
