"""The state of a cycle: what has been decided so far, and what is left for those who come later."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduling.engine.arrays import NEVER, UNLIMITED, BoolArray, IntArray
from scheduling.engine.charge import charges, device_count
from scheduling.engine.claims import Claim
from scheduling.engine.fleet import Dearness, Fleet
from scheduling.engine.fragmentation import Mix
from scheduling.engine.gang import amounts_of, is_gang_of
from scheduling.engine.horizon import Horizon, Stay, duration_of, end_of
from scheduling.engine.jobs import (
    JobSpec,
    PendingJob,
    PlacedMember,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.ledger import Ledger
from scheduling.engine.memory import Memory
from scheduling.engine.plan import Decision, Reserve
from scheduling.engine.policy import Packing, Policy
from scheduling.engine.promises import Promise, Promises, nodes_of
from scheduling.engine.quota import AnyBooks, Books, Tighter
from scheduling.engine.snapshot import Block, HeldDevices, Snapshot
from scheduling.engine.worth import Expectation


class Desk:
    """Ledgers, books, horizon and promises of one cycle, changed together.

    memory: what is handed on to the next cycle.

    ledger: free now and kept for nobody. soon: free once all that is stopping is gone, less what is
    kept. books, soon_books: usage of quota now, and then. kept: members kept for waiting jobs.
    version grows with every change, `roomier` whenever room came free that was not before.
    elastic: jobs that were running at the start and may have more members than they need.
    changed: running jobs that already have a decision; recut: GPUs that get another layout.
    """

    decisions: list[Decision]
    reserved: dict[int, Reserve]

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory | None = None) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.at = snapshot.taken_at
        self.memory = memory or Memory()
        self.memory.turn_to(snapshot)
        self.fleet = self.memory.fleet
        self.fleet.dearness = _dearness(self.fleet, snapshot, policy)
        self.decisions = []
        self.version = 0
        self._reserved: Counter[int] = Counter()
        self._reserved_at = 0
        self.roomier = 0
        self.reserved = {}
        self.budget: list[int] = snapshot.tenant_budget.tolist()
        self._pending = {job.id: job for job in snapshot.pending}
        self.running = {job.id: job for job in snapshot.running if not job.stopping}
        self.elastic = [job for job in self.running.values() if job.is_elastic]
        self.changed: set[int] = set()
        self.recut: set[int] = set()
        self.leaving: dict[int, list[PlacedMember]] = {}
        self._claim_of = self.memory.claims.of(snapshot.pending, self.at)
        self._open: dict[tuple[tuple[int, ...], ServiceClass], BoolArray] = {}
        self._staying: dict[tuple[tuple[int, ...], ServiceClass, int], BoolArray] = {}
        self._windows: list[int] = np.unique(snapshot.node_closes_at).tolist()
        self.has_windows = any(instant < NEVER for instant in self._windows[:1])
        self._raw = Ledger(self.fleet)
        self.soon = self._raw  # one and the same until something is on its way out, or kept
        self.books = Books(snapshot.quotas)
        self.soon_books = self.books  # as with the ledger
        self.horizon = Horizon(self.fleet, self._stays())
        for job in snapshot.running:
            self._leave(job, job.members if job.stopping else job.stopping_members)
        self.kept: dict[int, HeldDevices] = {}
        for held in self._valid_holds():
            if self._comes_free(held):
                self._keep(held)
        self.ledger = self._raw
        self._cap()
        self.promises = Promises()
        for block in snapshot.blocks:
            self._promise_block(block)

    def _stays(self) -> Iterator[Stay]:
        for job in self.snapshot.running:
            stays = () if job.stopping else job.staying
            yield Stay(job, stays, end_of(job, self.policy, self.at))

    def _valid_holds(self) -> Iterator[HeldDevices]:
        """Holds that have not expired; none does while one of its victims is still stopping."""
        pending = {job.id for job in self.snapshot.pending}
        stopping = {job.stopping_for for job in self.snapshot.running}
        for held in self.snapshot.holds:
            if held.job in pending and (held.until > self.at or held.job in stopping):
                yield held

    def _comes_free(self, held: HeldDevices) -> bool:
        """Whether what is kept is what the job asks for still, and is about to be free.

        It is not where a victim could not be stopped after all, a device or room on a node was
        lost, or the job has been changed: then the job looks for room anew.
        """
        job = self.job(held.job)
        return is_gang_of(job, held.members) and self.soon.has(job, held.members)

    def claim(self, job: PendingJob) -> Claim:
        """What a waiting job asks for."""
        return self._claim_of[job.id]

    def kind(self, job: PendingJob) -> int:
        """A number that jobs share which fit into the same room."""
        return self._claim_of[job.id].kind

    def job(self, job_id: int) -> PendingJob:
        return self._pending[job_id]

    def view(self, job: PendingJob) -> tuple[Ledger, Ledger]:
        """What is free for `job` now, and soon: what is kept for it included."""
        held = self.kept.get(job.id)
        if held is None:
            return self.ledger, self.soon
        soon = self.soon.fork()
        soon.release(job, held.members)
        now = self._raw.fork()
        now.cap(soon)
        return now, soon

    def quota_now(self, job: JobSpec) -> AnyBooks:
        """The quota that `job` may use now: what is kept for others is taken off."""
        held = self.kept.get(job.id)
        if len(self.kept) == (held is not None):
            return self.books
        return Tighter(self.books, self.quota_soon(job))

    def quota_soon(self, job: JobSpec) -> Books:
        """The quota once all that is stopping is gone; what is kept for `job` is its to use."""
        held = self.kept.get(job.id)
        if held is None:
            return self.soon_books
        soon = self.soon_books.fork()
        for flavor, parts in charges(self.fleet, job, held.members).items():
            soon.charge(job.tenant, flavor, -parts)
        return soon

    def open_nodes(self, job: JobSpec, flavors: tuple[int, ...]) -> BoolArray:
        """(N,) nodes of these flavors, or of all that `job` accepts, that may take it now."""
        key = flavors or job.flavors, job.service_class
        if key not in self._open:
            self._open[key] = self.fleet.suitable(*key) & self.snapshot.node_open
        return self._open[key]

    def open_until(self, job: JobSpec, flavors: tuple[int, ...], end: int) -> BoolArray:
        """(N,) those of `open_nodes` that have no maintenance window before `end`."""
        windows = self.windows_before(end)
        key = flavors or job.flavors, job.service_class, windows
        if key not in self._staying:
            is_open = self.open_nodes(job, flavors)
            stays = self.snapshot.node_closes_at >= end
            self._staying[key] = is_open & stays if windows else is_open
        return self._staying[key]

    def windows_before(self, end: int) -> int:
        """How many instants before `end` there are at which nodes close."""
        return bisect_left(self._windows, end)

    def until(self, job: JobSpec, *, start: int | None = None) -> int:
        """When `job` would end at the latest if it started now, or at `start`."""
        duration = duration_of(job, self.policy)
        start = self.at if start is None else start
        return NEVER if duration == NEVER else start + duration

    @property
    def soon_at(self) -> int:
        """When all that is told to stop now is gone at the latest."""
        return self.at + self.policy.max_grace

    def start(self, job: PendingJob, members: tuple[PlacedMember, ...]) -> dict[int, int]:
        """Give a waiting job its members. Returns what they cost: parts by flavor."""
        self.unkeep(job)
        return self.occupy(job, members, self.until(job))

    def occupy(self, job: JobSpec, members: Sequence[PlacedMember], end: int) -> dict[int, int]:
        """Take room and quota for members of a job from now until `end`; returns what they cost."""
        members = tuple(members)
        used = charges(self.fleet, job, members)
        for ledger in self._ledgers():
            ledger.take(job, members)
        for flavor, parts in used.items():
            self.books.charge(job.tenant, flavor, parts)
            if self.soon_books is not self.books:
                self.soon_books.charge(job.tenant, flavor, parts)
        if self.promises.all:
            self.promises.take(amounts_of(self.fleet, job, members), end, job.tenant)
        self.horizon.add(job, members, end)
        if self.budget[job.tenant] < UNLIMITED and end < NEVER:
            devices = sum(device_count(job.groups[own.group].request) for own in members)
            self.budget[job.tenant] -= (end - self.at) * devices
        self.version += 1
        return used

    def stop(self, job: RunningJob, members: tuple[PlacedMember, ...]) -> None:
        """Tell members of a running job to go: all of them, or the surplus of an elastic gang."""
        told = tuple(own for own in members if own not in job.stopping_members)
        if len(told) == len(job.staying):
            del self.running[job.id]
            self.horizon.drop(job.id)
        else:
            self.horizon.drop(job.id, told)
        self._leave(job, told)
        self.version += 1

    def promise(self, promise: Promise, free_at_start: IntArray) -> None:
        """Promise a place. free_at_start: (K, N) free at its start if nothing were promised."""
        self.promises.add(promise, free_at_start)
        self.version += 1

    def move_promises(self, moved: Promises) -> None:
        """Put promises in other places."""
        self.promises = moved
        self.version += 1

    def reservations(self) -> Counter[int]:
        """How many jobs have a place promised in each flavor."""
        if self._reserved_at != self.version:
            self._reserved_at, self._reserved = self.version, self._count_reserved()
        return self._reserved

    def _count_reserved(self) -> Counter[int]:
        flavor = self.snapshot.node_flavor
        owned = [promise for promise in self.promises.all if promise.owner is not None]
        queues = [np.unique(flavor[nodes_of([own], self.fleet.nodes)]) for own in owned]
        return Counter(own for queue in queues for own in queue.tolist())

    def keep(self, job: PendingJob, members: tuple[PlacedMember, ...], until: int) -> None:
        """Keep a whole planned placement for a waiting job: what is free of it, and the rest."""
        self.unkeep(job)
        self._keep(HeldDevices(job.id, members, until))
        self._cap()
        if self.promises.all:
            self.promises.take(
                amounts_of(self.fleet, job, members),
                self.until(job, start=self.soon_at),
                job.tenant,
            )
        self.version += 1

    def unkeep(self, job: PendingJob) -> None:
        """Let go of what was kept for a job."""
        held = self.kept.pop(job.id, None)
        if held is None:
            return
        self.soon.release(job, held.members)
        for flavor, parts in charges(self.fleet, job, held.members).items():
            self.soon_books.charge(job.tenant, flavor, -parts)
        self.horizon.drop(job.id)
        self._cap()
        self.version += 1
        self.roomier += 1

    def recut_gpus(self, gpus: Iterable[int]) -> None:
        """Withhold GPUs that get another layout from everybody."""
        for gpu in gpus:
            self.recut.add(gpu)
            for ledger in self._ledgers():
                ledger.withhold(gpu)
        self.version += 1

    def is_room_coming(self, job: PendingJob) -> bool:
        """Whether anything is on its way back, or kept for `job`."""
        return bool(self.leaving) or job.id in self.kept

    def leaving_from(self, members: Sequence[PlacedMember]) -> tuple[int, ...]:
        """Jobs on their way out that still hold devices, or else nodes, of these members."""
        nodes = {member.node for member in members}
        devices = {device for member in members for device in _devices(member)}
        on_nodes = [
            job_id
            for job_id, own in self.leaving.items()
            if any(member.node in nodes for member in own)
        ]
        on_devices = [
            job_id
            for job_id in on_nodes
            if any(not devices.isdisjoint(_devices(own)) for own in self.leaving[job_id])
        ]
        return tuple(sorted(on_devices or on_nodes or self.leaving))

    def _ledgers(self) -> list[Ledger]:
        """Each ledger once, though some may be one and the same."""
        if self.soon is self._raw:
            return [self._raw]
        return [self._raw, self.soon] + [self.ledger] * (self.ledger is not self._raw)

    def _leave(self, job: RunningJob, members: tuple[PlacedMember, ...]) -> None:
        if not members:
            return
        self.leaving.setdefault(job.id, []).extend(members)
        self._part_soon()
        self.soon.release(job, members)
        for flavor, parts in charges(self.fleet, job, members).items():
            self.soon_books.charge(job.tenant, flavor, -parts)

    def _part_soon(self) -> None:
        if self.soon is self._raw:
            self.soon = self._raw.fork()
            self.soon_books = self.books.fork()

    def _keep(self, held: HeldDevices) -> None:
        job = self.job(held.job)
        self._part_soon()
        self.soon.take(job, held.members)
        for flavor, parts in charges(self.fleet, job, held.members).items():
            self.soon_books.charge(job.tenant, flavor, parts)
        self.horizon.add(job, held.members, self.until(job, start=self.soon_at))
        self.kept[held.job] = held

    def _cap(self) -> None:
        """Nothing is free now that is kept for somebody."""
        if self.kept:
            self.ledger = self._raw.fork()
            self.ledger.cap(self.soon)
        else:
            self.ledger = self._raw

    def _promise_block(self, block: Block) -> None:
        if block.to_at <= self.at:
            return
        amounts = np.zeros((self.fleet.kinds, self.fleet.nodes), dtype=np.int64)
        for node, gpus in block.amounts:
            amounts[self.fleet.whole_row, node] += gpus
        if block.from_at <= self.at and block.tenant is not None:
            amounts = np.maximum(amounts - self._used_by(block.tenant), 0)
        start = max(block.from_at, self.at)
        free = self.horizon.at(self.soon, start).amounts()
        promise = Promise(None, block.name, start, block.to_at, amounts, tenant=block.tenant)
        self.promises.add(promise, free)

    def _used_by(self, tenant: int) -> IntArray:
        used = np.zeros((self.fleet.kinds, self.fleet.nodes), dtype=np.int64)
        for job in self.snapshot.running:
            if job.tenant == tenant:
                used += amounts_of(self.fleet, job, job.members)
        return used


def _devices(member: PlacedMember) -> list[tuple[str, int]]:
    return [
        *(("gpu", gpu) for gpu in member.gpus),
        *(("instance", row) for row in member.instances),
        *(("slot", row) for row in member.slots),
    ]


def _dearness(fleet: Fleet, snapshot: Snapshot, policy: Policy) -> Dearness | None:
    """What a member's place costs on each node, where the policy packs by that."""
    jobs = (*snapshot.pending, *snapshot.running)
    if policy.packing == Packing.FGD:
        return Mix(fleet, jobs).growth
    if policy.packing == Packing.MUSTER:
        return Expectation(fleet, jobs).loss
    return None
