"""Whom to stop so that a blocked job can start: as few, and with as little work lost, as possible.

Rows of candidates are tried one after the other, and a later row only if the earlier ones do not
suffice: surplus members of elastic gangs, standby jobs, jobs on lent quota that the claimant's
tenant owns (the tenant most over its share first), jobs of lower priority.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby

from scheduling.engine.charge import charged_gpus, charges
from scheduling.engine.desk import Desk
from scheduling.engine.horizon import Stay, tabulated
from scheduling.engine.jobs import Access, JobSpec, PendingJob, PlacedMember, RunningJob
from scheduling.engine.ledger import Ledger
from scheduling.engine.placing import Placer
from scheduling.engine.quota import Books
from scheduling.engine.share import Shares

EXACT = 12
"""Up to so many candidates every set of them is compared; beyond, they are taken greedily."""
FEW = 16
"""Up to so many victims are given back one by one, which is quicker than making arrays of them."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Members of a running job that would have to go: all, or the surplus of an elastic gang.

    loss: quota parts of its devices times seconds of work lost; 0 for surplus members.
    """

    job: RunningJob
    members: tuple[PlacedMember, ...]
    loss: int

    @property
    def is_whole(self) -> bool:
        return len(self.members) == len(self.job.staying)


@dataclass(frozen=True, slots=True)
class Room:
    """What making room comes to: who goes, and where the claimant starts then."""

    victims: tuple[Victim, ...]
    members: tuple[PlacedMember, ...]


class RoomMaker:
    """Finds victims in the running jobs of a cycle, which are sorted out once.

    has_candidates: whether anybody could be stopped for somebody.
    """

    def __init__(self, desk: Desk, placer: Placer) -> None:
        self._desk = desk
        self._placer = placer
        self._used: dict[int, dict[int, int]] = {}
        self._victims: dict[int, Victim] = {}
        running = list(desk.running.values())
        self._elastic = sorted(
            (job for job in desk.elastic if surplus_members(job)),
            key=lambda job: (job.priority, -job.started_at, -job.id),
        )
        self._stoppable = [job for job in running if _may_be_stopped(desk, job)]
        self.has_candidates = bool(self._elastic or self._stoppable)

    def make_room(self, job: PendingJob) -> Room | None:
        """The cheapest victims whose going lets `job` start, or None if there are none."""
        if not self.has_candidates:
            return None
        search = _Search(self._desk, self._placer, job, self._used)
        candidates: list[Victim] = []
        for row in self._rows(job):
            if not row:
                continue
            candidates += row
            room = search.cheapest(candidates)
            if room is not None:
                return room
        return None

    def _rows(self, job: PendingJob) -> Iterator[list[Victim]]:
        desk = self._desk
        yield [
            Victim(other, (member,), 0)
            for other in self._elastic
            if other.id not in desk.changed
            for member in surplus_members(other)
        ]
        if job.standby:
            return
        stoppable = [other for other in self._stoppable if other.id not in desk.changed]
        yield [self._whole(other) for other in stoppable if other.standby]
        charged = [other for other in stoppable if not other.standby]
        for row in _reclaimable(desk, job, charged):
            yield [self._whole(other) for other in row]
        yield [
            self._whole(other)
            for other in charged
            if _outranks(desk, job, other) and not _takes_back(desk, other, job)
        ]

    def _whole(self, job: RunningJob) -> Victim:
        """All members of a job that are not stopping, with the work that its stop would lose."""
        if job.id not in self._victims:
            self._victims[job.id] = Victim(job, job.staying, work_lost(self._desk, job))
        return self._victims[job.id]


def work_lost(desk: Desk, job: RunningJob) -> int:
    """Parts of its devices times seconds since its last checkpoint, with the time to restart.

    An unknown checkpoint counts as the usual interval, so that hiding one wins nothing.
    """
    since = desk.policy.checkpoint_interval
    if job.checkpoint_at is not None:
        since = max(0, desk.at - job.checkpoint_at)
    return charged_gpus(desk.fleet, job, job.members) * (since + desk.policy.restart)


def surplus_members(job: RunningJob) -> list[PlacedMember]:
    """Members above the minimum of their group and of the gang, the highest ranks first."""
    members = job.staying
    counts = [sum(own.group == group for own in members) for group in range(len(job.groups))]
    spare = len(members) - job.min_members
    surplus: list[PlacedMember] = []
    for member in sorted(members, key=lambda own: (-own.rank, -own.group)):
        if len(surplus) == spare:
            break
        if counts[member.group] > job.groups[member.group].min_member:
            counts[member.group] -= 1
            surplus.append(member)
    return surplus


def _may_be_stopped(desk: Desk, job: RunningJob) -> bool:
    """Whether anybody may stop `job`: not fixed, not protected, not stopped too often."""
    return (
        job.preemptible
        and job.protected_until <= desk.at
        and job.started_at + desk.policy.min_run <= desk.at
        and job.preempted < desk.policy.max_preemptions
    )


def _outranks(desk: Desk, claimant: JobSpec, other: JobSpec) -> bool:
    """Whether `claimant` may stop `other` for its priority."""
    if claimant.priority <= other.priority:
        return False
    if claimant.tenant == other.tenant:
        return True
    across = desk.policy.across
    return across is not None and claimant.priority >= across


def _takes_back(desk: Desk, victim: JobSpec, claimant: PendingJob) -> bool:
    """Whether `victim`, waiting again, could reclaim from `claimant` what it gave up."""
    books = desk.soon_books
    flavors = range(len(desk.snapshot.flavors))
    parts = desk.claim(claimant).parts
    same_cohort = books.root(victim.tenant) == books.root(claimant.tenant)
    return (
        victim.tenant != claimant.tenant
        and same_cohort
        and any(
            books.is_limited(claimant.tenant)
            and books.within_nominal(claimant.tenant, flavor) < parts
            and books.within_nominal(victim.tenant, flavor) >= 0
            for flavor in claimant.flavors or flavors
        )
    )


def _reclaimable(
    desk: Desk, job: PendingJob, stoppable: Sequence[RunningJob]
) -> Iterator[list[RunningJob]]:
    """Jobs on quota that is lent to their tenants, the tenant most over its share first."""
    books = desk.soon_books
    asked = desk.claim(job).parts
    flavors = [
        flavor
        for flavor in job.flavors or range(len(desk.snapshot.flavors))
        if books.is_limited(job.tenant) and books.within_nominal(job.tenant, flavor) >= asked
    ]
    if not flavors or not asked or not stoppable:
        return
    shares = Shares(desk.snapshot, books, desk.policy.history_weight)
    lenders = [
        tenant
        for tenant in range(len(desk.snapshot.tenant_ids))
        if tenant != job.tenant
        and books.root(tenant) == books.root(job.tenant)
        and any(books.is_above_nominal(tenant, flavor) for flavor in flavors)
    ]
    for tenant in sorted(lenders, key=lambda own: (-shares.of(own), own)):
        own = [other for other in stoppable if other.tenant == tenant]
        yield [other for other in own if not _outranks(desk, other, job)]


class _Search:
    """Tries sets of victims on forks of what is free soon."""

    def __init__(
        self, desk: Desk, placer: Placer, job: PendingJob, used: dict[int, dict[int, int]]
    ) -> None:
        self._desk = desk
        self._placer = placer
        self._job = job
        self._used = used
        _, self._soon = desk.view(job)
        self._free_gpus = int(self._soon.whole[desk.open_nodes(job, ())].sum())
        self._asked_gpus = sum(
            group.min_member * group.request.count
            for group in job.groups
            if group.request.kind == Access.WHOLE
        )

    def cheapest(self, candidates: Sequence[Victim]) -> Room | None:
        """The set that loses least work among those that suffice."""
        useful = self._useful(candidates)
        if not self._would_start_without(useful):
            return None
        surplus_only = all(not victim.is_whole for victim in useful)
        if len(useful) <= EXACT and not surplus_only:
            return self._exact(useful)
        return self._greedy(useful)

    def _useful(self, candidates: Sequence[Victim]) -> list[Victim]:
        """Those that hold something where the claimant may go, and the higher ranks beside them."""
        found: list[Victim] = []
        gangs: set[int] = set()
        for victim in reversed(candidates):
            if victim.job.id in gangs or self._is_near(victim):
                found.append(victim)
                if not victim.is_whole:
                    gangs.add(victim.job.id)
        return found[::-1]

    def _is_near(self, victim: Victim) -> bool:
        """Whether it holds anything on a node that the claimant could use."""
        job = self._job
        nodes = self._desk.open_nodes(job, ())
        return any(nodes[member.node] for member in victim.members)

    def _exact(self, candidates: Sequence[Victim]) -> Room | None:
        """The best of all sets that do; only those are looked into that no better one spares."""
        sets = [
            chosen
            for size in range(1, len(candidates) + 1)
            for chosen in combinations(candidates, size)
            if self._could_do(chosen)
        ]
        for _, equals in groupby(sorted(sets, key=_loss), key=_loss):
            for chosen in sorted(equals, key=_badness):
                if self._is_legal(chosen) and self._would_start_without(chosen):
                    members = self._start_without(chosen)
                    return None if members is None else Room(chosen, members)
        return None

    def _could_do(self, victims: Sequence[Victim]) -> bool:
        """Whether the GPUs that are free, and theirs, are as many as the claimant asks for."""
        given = sum(len(member.gpus) for own in victims for member in own.members)
        return self._free_gpus + given >= self._asked_gpus

    def _greedy(self, candidates: Sequence[Victim]) -> Room | None:
        """Victims by loss per GPU until the gang fits; then each is spared that need not go."""
        by_loss = self._legal_part(sorted(candidates, key=self._loss_per_gpu))
        if not self._would_start_without(by_loss):
            return None
        low, high = 1, len(by_loss)
        while low < high:
            middle = (low + high) // 2
            enough = self._would_start_without(by_loss[:middle])
            low, high = (low, middle) if enough else (middle + 1, high)
        victims = self._spare(by_loss[:low])
        members = self._start_without(victims)
        return None if members is None else Room(tuple(victims), members)

    def _spare(self, victims: list[Victim]) -> list[Victim]:
        """Those that must go: one after the other stays, from the dearest, if the gang fits so."""
        ledger, books = self._without(victims)
        for victim in reversed(victims.copy()):
            spared = [other for other in victims if other is not victim]
            if not _from_the_top(spared):
                continue
            stays = _held_by_it_alone(victim, spared)
            fuller, dearer = ledger.fork(), books.fork()
            fuller.take(victim.job, stays)
            for flavor, parts in charges(self._desk.fleet, victim.job, stays).items():
                dearer.charge(victim.job.tenant, flavor, parts)
            if self._would_start(fuller, dearer):
                victims, ledger, books = spared, fuller, dearer
        return victims

    def _loss_per_gpu(self, victim: Victim) -> tuple[object, ...]:
        parts = max(1, charged_gpus(self._desk.fleet, victim.job, victim.members))
        job = victim.job
        rank = -min(member.rank for member in victim.members)
        return victim.loss // parts, job.priority, -job.started_at, -job.id, rank

    def _start_without(self, victims: Sequence[Victim]) -> tuple[PlacedMember, ...] | None:
        """Where the claimant would start if the victims were gone, quota and promises kept."""
        ledger, books = self._without(victims)
        return self._placer.find_on(ledger, self._job, books, start=self._desk.soon_at)

    def _would_start_without(self, victims: Sequence[Victim]) -> bool:
        """Whether `_start_without` finds a place."""
        return self._would_start(*self._without(victims))

    def _would_start(self, ledger: Ledger, books: Books) -> bool:
        return self._placer.fits_on(ledger, self._job, books, start=self._desk.soon_at)

    def _without(self, victims: Sequence[Victim]) -> tuple[Ledger, Books]:
        """What would be free, of room and of quota, if the victims were gone."""
        ledger, books = self._soon.fork(), self._desk.soon_books.fork()
        gone = merged(victims)
        if len(gone) > FEW:
            stays = [Stay(victim.job, victim.members, 0) for victim in gone]
            ledger.give_back(tabulated(self._desk.fleet, stays).freed(0))
        for victim in gone:
            if len(gone) <= FEW:
                ledger.release(victim.job, victim.members)
            for flavor, parts in self._used_by(victim).items():
                books.charge(victim.job.tenant, flavor, -parts)
        return ledger, books

    def _is_legal(self, victims: Sequence[Victim]) -> bool:
        """Whether of gangs the highest ranks go, and every loan that is taken back was one."""
        one_by_one = merged(victims)
        return _from_the_top(victims) and len(self._legal_part(one_by_one)) == len(one_by_one)

    def _legal_part(self, victims: Sequence[Victim]) -> list[Victim]:
        """Those that may be stopped if they are stopped one after the other.

        A stop that only reclaim allows needs a tenant above its nominal quota before that stop.
        """
        books, legal = self._desk.soon_books.fork(), []
        for victim in victims:
            used = self._used_by(victim)
            tenant = victim.job.tenant
            if self._needs_a_loan(victim) and not any(
                books.is_above_nominal(tenant, flavor) for flavor in used
            ):
                continue
            legal.append(victim)
            for flavor, parts in used.items():
                books.charge(tenant, flavor, -parts)
        return legal

    def _used_by(self, victim: Victim) -> dict[int, int]:
        """Parts by flavor that the victim gives back."""
        if not victim.is_whole:
            return charges(self._desk.fleet, victim.job, victim.members)
        if victim.job.id not in self._used:
            used = charges(self._desk.fleet, victim.job, victim.members)
            self._used[victim.job.id] = used
        return self._used[victim.job.id]

    def _needs_a_loan(self, victim: Victim) -> bool:
        """Whether nothing but reclaim allows this stop."""
        ranked = _outranks(self._desk, self._job, victim.job)
        return victim.is_whole and not victim.job.standby and not ranked


def _held_by_it_alone(victim: Victim, others: Sequence[Victim]) -> tuple[PlacedMember, ...]:
    """Members of the victim that none of the others has as well."""
    also = {member for own in others if own.job.id == victim.job.id for member in own.members}
    return tuple(member for member in victim.members if member not in also)


def _loss(victims: Sequence[Victim]) -> int:
    return sum(victim.loss for victim in victims)


def _badness(victims: Sequence[Victim]) -> tuple[object, ...]:
    """Sets compare by work lost, number of jobs, lower priority, later start, id."""
    jobs = [victim.job for victim in victims]
    return (
        sum(victim.loss for victim in victims),
        len({job.id for job in jobs}),
        sorted((job.priority for job in jobs), reverse=True),
        sorted(-job.started_at for job in jobs),
        sorted(job.id for job in jobs),
    )


def _from_the_top(victims: Sequence[Victim]) -> bool:
    """Whether of every elastic gang the highest ranks go."""
    partial = [victim for victim in victims if not victim.is_whole]
    for job_id in {victim.job.id for victim in partial}:
        own = [victim for victim in partial if victim.job.id == job_id]
        taken = {member for victim in own for member in victim.members}
        if taken != set(surplus_members(own[0].job)[: len(taken)]):
            return False
    return True


def merged(victims: Sequence[Victim]) -> list[Victim]:
    """One victim per job: whole jobs as they are, surplus members of one gang together."""
    whole = {victim.job.id for victim in victims if victim.is_whole}
    found: dict[int, Victim] = {}
    for victim in victims:
        job_id = victim.job.id
        if job_id in whole and not victim.is_whole:
            continue
        if job_id in found:
            members = found[job_id].members + victim.members
            victim = replace(found[job_id], members=members)  # noqa: PLW2901 -- joined to the first
        found[job_id] = victim
    return list(found.values())
