"""The rules that every plan keeps, as code: tests, simulator and apply step ask the same.

`violations` replays the decisions of a plan in their order on ledgers of its own, and says in a
sentence what each breaks. It trusts nothing that the planner worked out.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.charge import charges, least_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import wish_of
from scheduling.engine.horizon import duration_of, end_of
from scheduling.engine.jobs import (
    Access,
    JobSpec,
    ParentState,
    PendingJob,
    PlacedMember,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.ledger import Ledger
from scheduling.engine.plan import (
    Decision,
    Grow,
    Hold,
    Plan,
    Preempt,
    Repartition,
    Reserve,
    Shrink,
    Start,
)
from scheduling.engine.policy import Policy
from scheduling.engine.quota import Books
from scheduling.engine.snapshot import GpuMode, Snapshot

Members = tuple[PlacedMember, ...]


def violations(snapshot: Snapshot, plan: Plan, policy: Policy | None = None) -> list[str]:
    """What is wrong with `plan`, in sentences; empty for a sound one.

    With the policy that it was made under, durations that the policy sets are checked as well.
    """
    audit = _Audit(snapshot, policy or Policy())
    return [*_verdicts(snapshot, plan), *audit.found(plan)]


def _verdicts(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    if plan.taken_at != snapshot.taken_at:
        yield "the plan is of another instant than the snapshot"
    verdicts = Counter(own.job for own in plan.decisions if isinstance(own, Start | Hold))
    pending = {job.id for job in snapshot.pending}
    for job in snapshot.pending:
        if verdicts[job.id] != 1:
            yield f"job {job.id} has {verdicts[job.id]} verdicts"
    for job_id in verdicts:
        if job_id not in pending:
            yield f"job {job_id} has a verdict and is not waiting"
    changed = Counter(own.job for own in plan.decisions if isinstance(own, Grow | Shrink | Preempt))
    for job_id, count in changed.items():
        if count > 1:
            yield f"job {job_id} is changed {count} times"


class _Audit:
    """Replays a plan: what is free now, what is free once all that is stopping is gone."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._fleet = Fleet(snapshot)
        self._now = Ledger(self._fleet)
        self._soon = self._now.fork()
        self._books = Books(snapshot.quotas)
        self._firm = Books(snapshot.quotas)  # without what elastic gangs got above their minimum
        self._pending = {job.id: job for job in snapshot.pending}
        self._running = {job.id: job for job in snapshot.running}
        self._budget: list[int] = snapshot.tenant_budget.tolist()
        self._stays: list[tuple[int, JobSpec, Members]] = []
        for job in snapshot.running:
            leaving = job.members if job.stopping else job.stopping_members
            self._soon.release(job, leaving)
            staying = tuple(own for own in job.members if own not in leaving)
            self._stays.append((end_of(job, policy, snapshot.taken_at), job, staying))

    def found(self, plan: Plan) -> Iterator[str]:
        """What is wrong, decision by decision; then with what is kept and what is promised."""
        for decision in plan.decisions:
            yield from self._of(decision)
        yield from self._kept(plan)
        yield from self._promised(plan)

    def _of(self, decision: Decision) -> Iterator[str]:
        if isinstance(decision, Start) and decision.job in self._pending:
            yield from self._start(self._pending[decision.job], decision)
        elif isinstance(decision, Grow | Shrink | Preempt):
            job = self._running.get(decision.job)
            if job is None:
                yield f"job {decision.job} is changed and is not running"
            elif isinstance(decision, Grow):
                yield from self._grow(job, decision)
            else:
                yield from self._stop(job, decision)
        elif isinstance(decision, Repartition):
            yield from self._recut(decision)

    def _start(self, job: PendingJob, start: Start) -> Iterator[str]:
        yield from _waits(job, self._snapshot.taken_at)
        yield from _gang(job, start.members)
        yield from self._placement(job, start.members)
        left = self._budget[job.tenant]
        duration = duration_of(job, self._policy)
        if left < UNLIMITED:
            devices = [(*own.gpus, *own.instances, *own.slots) for own in start.members]
            cost = sum(len(own) for own in devices) * duration
            if cost > left:
                yield f"job {job.id} exceeds the budget of its tenant"
            self._budget[job.tenant] -= cost
        end = NEVER if duration == NEVER else self._snapshot.taken_at + duration
        yield from self._take(job, start.members, end)

    def _grow(self, job: RunningJob, grow: Grow) -> Iterator[str]:
        counts = Counter(member.group for member in (*job.members, *grow.members))
        for index, group in enumerate(job.groups):
            if counts[index] > group.max_member:
                yield f"job {job.id} grows above its most"
        yield from self._placement(job, grow.members)
        end = end_of(job, self._policy, self._snapshot.taken_at)
        yield from self._take(job, grow.members, end)

    def _take(self, job: JobSpec, members: Members, end: int) -> Iterator[str]:
        for flavor, parts in charges(self._fleet, job, members).items():
            if parts > self._books.available(job.tenant, flavor):
                yield f"job {job.id} exceeds the quota of its tenant"
            elif not job.preemptible and parts > self._firm.within_nominal(job.tenant, flavor):
                yield f"job {job.id} is not preemptible and borrows"
            self._books.charge(job.tenant, flavor, parts)
            firm = 0 if isinstance(job, RunningJob) else least_parts(self._fleet, job)
            self._firm.charge(job.tenant, flavor, min(parts, firm))
        try:
            self._now.take(job, members)
            self._soon.take(job, members)
        except AssertionError:
            yield f"job {job.id} is given what is not free"
            return
        self._stays.append((end, job, members))

    def _stop(self, job: RunningJob, stop: Shrink | Preempt) -> Iterator[str]:
        if job.stopping:
            yield f"job {job.id} is stopping already"
            return
        members = stop.members if isinstance(stop, Shrink) else job.members
        gone = tuple(own for own in members if own not in job.stopping_members)
        self._soon.release(job, gone)
        self._stays = [
            (end, own, tuple(member for member in held if own.id != job.id or member not in gone))
            for end, own, held in self._stays
        ]
        if isinstance(stop, Shrink):
            left = tuple(own for own in job.members if own not in members)
            yield from _whole(job, left)
        elif stop.on_behalf_of is None:
            if not list(_whole(job, job.members)):
                yield f"job {job.id} is stopped though it has its minimum"
        else:
            yield from self._victim(job, self._pending.get(stop.on_behalf_of))

    def _victim(self, job: RunningJob, claimant: PendingJob | None) -> Iterator[str]:
        if claimant is None:
            yield f"job {job.id} is stopped for nobody"
        elif not job.preemptible or self._is_protected(job):
            yield f"job {job.id} is protected and stopped"
        elif claimant.standby:
            yield f"job {job.id} is stopped for a standby job"

    def _is_protected(self, job: RunningJob) -> bool:
        until = max(job.protected_until, job.started_at + self._policy.min_run)
        often = job.preempted >= self._policy.max_preemptions
        return often or until > self._snapshot.taken_at

    def _recut(self, change: Repartition) -> Iterator[str]:
        gpu = change.gpu
        exclusive = self._fleet.exclusive[gpu] and self._now.whole_gpus()[gpu]
        mig = self._snapshot.gpu_mode[gpu] == GpuMode.MIG
        own = self._snapshot.mig_gpu == gpu
        idle = exclusive or (mig and self._now.instances[own].all())
        if not idle:
            yield f"GPU {gpu} is cut anew and is not idle"

    def _placement(self, job: JobSpec, members: Members) -> Iterator[str]:
        yield from self._nodes(job, members)
        for member in members:
            yield from self._devices(job, member)
        wish = wish_of(job, self._snapshot.taken_at)
        if wish.required is not None:
            domain = self._fleet.domains(wish.required)
            if len({int(domain[member.node]) for member in members}) > 1:
                yield f"job {job.id} is in more than one {wish.required.name.lower()}"

    def _nodes(self, job: JobSpec, members: Members) -> Iterator[str]:
        suitable = self._fleet.suitable(job.flavors, job.service_class) & self._snapshot.node_open
        duration = duration_of(job, self._policy)
        end = NEVER if duration == NEVER else self._snapshot.taken_at + duration
        critical = job.service_class == ServiceClass.LATENCY_CRITICAL
        for node in sorted({member.node for member in members}):
            if not suitable[node]:
                yield f"job {job.id} is on node {node}, which is not open to it"
            if isinstance(job, PendingJob) and end > self._snapshot.node_closes_at[node]:
                yield f"job {job.id} would not end before node {node} closes"
            if self._now.crowd[node] if critical else self._now.alone[node]:
                yield f"job {job.id} is on node {node} beside a job that bears no company"
            if job.island and len(self._islands(members, node)) > 1:
                yield f"job {job.id} is in more than one island of node {node}"

    def _islands(self, members: Members, node: int) -> set[int]:
        gpus = [gpu for member in members if member.node == node for gpu in member.gpus]
        return {int(self._fleet.island_of[gpu]) for gpu in gpus}

    def _devices(self, job: JobSpec, member: PlacedMember) -> Iterator[str]:
        snapshot, fleet = self._snapshot, self._fleet
        request = job.groups[member.group].request
        wanted = {
            Access.WHOLE: (request.count, 0, 0),
            Access.SLICE: (0, request.count, 0),
            Access.SHARE: (0, 0, request.count),
            Access.FRACTION: (1, 0, 0),
            Access.NONE: (0, 0, 0),
        }
        got = tuple(len(set(own)) for own in (member.gpus, member.instances, member.slots))
        if got != wanted[request.kind]:
            yield f"a member of job {job.id} got the wrong number of devices"
        usable = fleet.hami if request.kind == Access.FRACTION else fleet.exclusive
        boards = [
            *member.gpus,
            *(int(snapshot.mig_gpu[row]) for row in member.instances),
            *(int(snapshot.slot_gpu[row]) for row in member.slots),
        ]
        for gpu in boards:
            if gpu not in fleet.gpus_of(member.node):
                yield f"job {job.id} got GPU {gpu}, which is on another node"
            if snapshot.gpu_memory_mib[gpu] < job.gpu_memory_mib:
                yield f"job {job.id} got GPU {gpu}, which is too small"
        if not all(usable[gpu] for gpu in member.gpus):
            yield f"job {job.id} got a GPU that it cannot use"
        if not all(fleet.instances[row] for row in member.instances):
            yield f"job {job.id} got an instance that it cannot use"
        if not all(fleet.slots[row] for row in member.slots):
            yield f"job {job.id} got a replica that it cannot use"

    def _kept(self, plan: Plan) -> Iterator[str]:
        """What is kept for waiting jobs is free soon, and nobody else's."""
        for hold in plan.holds:
            job = self._pending.get(hold.job)
            if job is None or not hold.keeps:
                continue
            yield from _gang(job, hold.keeps)
            try:
                self._soon.take(job, hold.keeps)
            except AssertionError:
                yield f"job {hold.job} keeps what will not be free"
                return
            self._stays.append((self._kept_until(job), job, hold.keeps))

    def _kept_until(self, job: PendingJob) -> int:
        duration = duration_of(job, self._policy)
        if duration == NEVER:
            return NEVER
        return self._snapshot.taken_at + self._policy.max_grace + duration

    def _promised(self, plan: Plan) -> Iterator[str]:
        """At the start of each reservation the GPUs that it names are free, others' taken off."""
        reserves = list(plan.of(Reserve))
        for reserve in reserves:
            later = self._soon.fork()
            for end, job, members in self._stays:
                if end <= reserve.start_at:
                    later.release(job, members)
            promised = Counter({node: gpus for node, _, gpus in reserve.amounts})
            for other in reserves:
                ends = self._end_of(other)
                if other is not reserve and other.start_at <= reserve.start_at < ends:
                    promised.update({node: gpus for node, _, gpus in other.amounts})
            for node, gpus in promised.items():
                if gpus > later.whole[node]:
                    yield f"the reservation of job {reserve.job} on node {node} is delayed"

    def _end_of(self, reserve: Reserve) -> int:
        duration = duration_of(self._pending[reserve.job], self._policy)
        return NEVER if duration == NEVER else reserve.start_at + duration


def _waits(job: PendingJob, at: int) -> Iterator[str]:
    if job.held or job.gates:
        yield f"job {job.id} is on hold and starts"
    if job.not_before is not None and job.not_before > at:
        yield f"job {job.id} starts too early"
    for parent in job.after:
        needed = {ParentState.SUCCEEDED}
        if not parent.needs_success:
            needed.add(ParentState.FAILED)
        if parent.state not in needed and parent.needs_success:
            yield f"job {job.id} starts before job {parent.job} has succeeded"


def _gang(job: JobSpec, members: Members) -> Iterator[str]:
    yield from _whole(job, members)
    counts = Counter(member.group for member in members)
    for index, group in enumerate(job.groups):
        if counts[index] > group.max_member:
            yield f"job {job.id} got {counts[index]} members of group {index}"
    ranks = [(member.group, member.rank) for member in members]
    if any(first >= second for first, second in pairwise(ranks)):
        yield f"the ranks of job {job.id} are not in order"
    if any(rank >= counts[group] for group, rank in ranks):
        yield f"the ranks of job {job.id} have holes"


def _whole(job: JobSpec, members: Members) -> Iterator[str]:
    """What keeps members from being a whole gang."""
    counts = Counter(member.group for member in members)
    for index, group in enumerate(job.groups):
        if counts[index] < group.min_member:
            yield f"job {job.id} has {counts[index]} members of group {index}"
    if len(members) < job.min_members:
        yield f"job {job.id} has {len(members)} members in all"
