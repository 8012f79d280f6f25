"""The rules that every plan keeps, as code: tests, simulator and apply step ask the same.

`violations` replays the decisions of a plan in their order on ledgers of its own, and says in a
sentence what each breaks. It trusts nothing that the planner worked out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.dependencies import Dependencies
from scheduling.engine.entitlement import Usage, is_protected, outranks
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import is_gang_of
from scheduling.engine.horizon import Stay, duration_of, end_of
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
    Reason,
    Repartition,
    Reserve,
    Shrink,
    Start,
)
from scheduling.engine.policy import Order, Policy
from scheduling.engine.seat_rules import (
    SeatRules,
    can_be_cut_into,
    devices_of,
    held_alone,
    is_taken,
    no_gang,
    no_growth,
    not_whole,
    overfull,
    unwelcome,
)
from scheduling.engine.snapshot import UNKNOWN, Block, GpuMode, HeldDevices, Snapshot

Members = tuple[PlacedMember, ...]


def violations(snapshot: Snapshot, plan: Plan, policy: Policy | None = None) -> list[str]:
    """What is wrong with `plan`, in sentences; empty for a sound one.

    policy: that it was made under; without it, what every policy has by default is asked for.
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
        self._at = snapshot.taken_at
        self._fleet = Fleet(snapshot)
        self._now = Ledger(self._fleet)
        self._soon = self._now.fork()
        self._rules = SeatRules(self._fleet)
        self._quota = Usage(self._fleet, snapshot.quotas)
        self._quota_soon = Usage(self._fleet, snapshot.quotas)
        self._pending = {job.id: job for job in snapshot.pending}
        self._running = {job.id: job for job in snapshot.running}
        self._budget: list[int] = snapshot.tenant_budget.tolist()
        self._stays: list[Stay] = []
        self._given: list[Stay] = []  # by this plan, places that it makes room for included
        self._holds: dict[int, Hold] = {}
        self._stopped: defaultdict[int, list[tuple[RunningJob, Members]]] = defaultdict(list)
        self._dependencies: Dependencies | None = None
        self._recut_gpus: set[int] = set()
        for job in snapshot.running:
            leaving = job.members if job.stopping else job.stopping_members
            if leaving:
                self._soon.release(job, leaving)
                self._quota_soon.give_back(job, leaving)
            stays = () if job.stopping else job.staying
            self._stays.append(Stay(job, stays, end_of(job, policy, self._at)))
        self._kept = dict(self._kept_before())

    def found(self, plan: Plan) -> Iterator[str]:
        """What is wrong, decision by decision; then with what is promised, and with the order."""
        self._holds = {hold.job: hold for hold in plan.holds}
        for decision in plan.decisions:
            yield from self._of(decision)
        yield from self._promised(plan)
        yield from self._blocked()
        if self._policy.strict or self._snapshot.tenant_strict.any():
            yield from self._overtaken(plan)

    def _of(self, decision: Decision) -> Iterator[str]:
        if isinstance(decision, Hold):
            yield from self._hold(decision)
        elif isinstance(decision, Start):
            if decision.job in self._pending:
                yield from self._start(self._pending[decision.job], decision)
        elif isinstance(decision, Grow | Shrink | Preempt):
            job = self._running.get(decision.job)
            if job is None:
                yield f"job {decision.job} is changed and is not running"
            elif job.stopping:
                yield f"job {job.id} is stopping already"
            elif isinstance(decision, Grow):
                yield from self._grow(job, decision)
            else:
                yield from self._stop(job, decision)
        elif isinstance(decision, Repartition):
            yield from self._recut(decision)

    def _start(self, job: PendingJob, start: Start) -> Iterator[str]:
        self._kept.pop(job.id, None)
        if not self._rules.exist(job, start.members):
            yield f"job {job.id} gets what does not exist"
            return
        yield from self._waits(job)
        yield from no_gang(job, start.members)
        stay = Stay(job, start.members, self._until(job, self._at))
        yield from self._rules.late(job, stay.members, stay.end)
        yield from self._give(stay)
        if not job.is_elastic:  # what others let go of later may be what a gang has grown by
            yield from self._of_others(stay)

    def _grow(self, job: RunningJob, grow: Grow) -> Iterator[str]:
        if not self._rules.exist(job, grow.members):
            yield f"job {job.id} gets what does not exist"
            return
        yield from no_growth(job, grow.members)
        stay = Stay(job, grow.members, end_of(job, self._policy, self._at))
        yield from self._rules.late(job, stay.members, stay.end)
        yield from self._give(stay, before=job.members)
        yield from self._of_others(stay)

    def _give(self, stay: Stay, before: Members = ()) -> Iterator[str]:
        """Room, quota and budget for members that run from now on, beside those from before."""
        job, members = stay.job, stay.members
        yield from self._rules.broken(job, members, before)
        yield from unwelcome(self._now, job, members, before)
        yield from self._spent(stay)
        yield from self._quota.exceeded(job, members)
        self._quota.charge(job, members)
        self._quota_soon.charge(job, members)
        if not is_taken(self._now, job, members) or not is_taken(self._soon, job, members):
            yield f"job {job.id} is given what is not free"
            return
        yield from overfull(self._now, job, members)
        self._stays.append(stay)
        self._given.append(stay)

    def _spent(self, stay: Stay) -> Iterator[str]:
        left = self._budget[stay.job.tenant]
        if left >= UNLIMITED:
            return
        seconds = NEVER if stay.end == NEVER else stay.end - self._at
        cost = sum(map(_device_count, stay.members)) * seconds
        if cost and cost > left:
            yield f"job {stay.job.id} exceeds the budget of its tenant"
        self._budget[stay.job.tenant] -= cost

    def _until(self, job: JobSpec, start: int) -> int:
        duration = duration_of(job, self._policy)
        return NEVER if duration == NEVER else start + duration

    def _waits(self, job: PendingJob) -> Iterator[str]:
        if job.held or job.gates:
            yield f"job {job.id} is on hold and starts"
        if job.not_before is not None and job.not_before > self._at:
            yield f"job {job.id} starts too early"
        for parent in job.after:
            needed = {ParentState.SUCCEEDED}
            if not parent.needs_success:
                needed.add(ParentState.FAILED)
            if parent.state not in needed and (
                parent.needs_success or not self._is_lost(parent.job)
            ):
                done = "succeeded" if parent.needs_success else "ended"
                yield f"job {job.id} starts before job {parent.job} has {done}"

    def _is_lost(self, job_id: int) -> bool:
        """Whether a waiting job will never run, which counts as an end, not as a success."""
        if job_id not in self._pending:
            return False
        if self._dependencies is None:
            self._dependencies = Dependencies(self._snapshot)
        return self._dependencies.failed(self._pending[job_id]) is not None

    def _stop(self, job: RunningJob, stop: Shrink | Preempt) -> Iterator[str]:
        stays = job.staying
        gone = stop.members if isinstance(stop, Shrink) else stays
        if not set(gone) <= set(stays) or len(set(gone)) < len(gone):
            yield f"job {job.id} is to lose members that it does not have"
            return
        if isinstance(stop, Shrink):
            left = tuple(own for own in stays if own not in gone)
            yield from not_whole(job, left)
            if any(own.group == up.group and own.rank < up.rank for own in gone for up in left):
                yield f"job {job.id} does not lose its highest ranks"
        if stop.on_behalf_of is not None:
            yield from self._behalf(job, stop.on_behalf_of, whole=isinstance(stop, Preempt))
            self._stopped[stop.on_behalf_of].append((job, gone))
        elif not list(not_whole(job, job.members)):
            yield f"job {job.id} is stopped though it has its minimum"
        self._soon.release(job, gone)
        self._quota_soon.give_back(job, gone)
        self._stays = [
            own
            if own.job.id != job.id
            else Stay(own.job, tuple(one for one in own.members if one not in gone), own.end)
            for own in self._stays
        ]

    def _behalf(self, job: RunningJob, claimant_id: int, *, whole: bool) -> Iterator[str]:
        claimant, hold = self._pending.get(claimant_id), self._holds.get(claimant_id)
        if claimant is None:
            yield f"job {job.id} is stopped for nobody"
            return
        if hold is None or hold.reason != Reason.MAKING_ROOM or not hold.keeps:
            yield f"job {job.id} is stopped for job {claimant.id}, which keeps nothing"
        if whole:
            yield from self._victim(job, claimant)

    def _victim(self, job: RunningJob, claimant: PendingJob) -> Iterator[str]:
        kept = [(self._pending[held.job], held.members) for held in self._kept.values()]
        if is_protected(self._policy, job, self._at):
            yield f"job {job.id} is protected and stopped"
        elif claimant.standby:
            yield f"job {job.id} is stopped for a standby job"
        elif not (
            job.standby
            or outranks(self._policy, claimant, job)
            or self._quota_soon.reclaims(claimant, job, kept)
        ):
            yield f"job {job.id} is stopped for job {claimant.id}, which has no right to that"

    def _hold(self, hold: Hold) -> Iterator[str]:
        """What is kept for a waiting job is free soon, open to it, and all that it needs."""
        before = self._kept.pop(hold.job, None)
        job = self._pending.get(hold.job)
        if job is None or not hold.keeps:
            return
        if not self._rules.exist(job, hold.keeps):
            yield f"job {job.id} keeps what does not exist"
            return
        yield from no_gang(job, hold.keeps)
        stay = Stay(job, hold.keeps, self._until(job, self._at + self._policy.max_grace))
        if hold.reason == Reason.MAKING_ROOM:
            yield from self._rules.broken(job, hold.keeps)
            yield from self._rules.late(job, stay.members, stay.end)
            yield from self._of_others(stay)
            yield from self._needless(job, hold.keeps)
            for wrong in self._quota_soon.exceeded(job, hold.keeps):
                yield f"{wrong} with what it keeps"
        elif before is None or before.members != hold.keeps:
            yield f"job {job.id} keeps what was not kept for it"
        self._quota_soon.charge(job, hold.keeps)
        if not is_taken(self._soon, job, hold.keeps):
            yield f"job {job.id} keeps what will not be free"
            return
        yield from overfull(self._soon, job, hold.keeps)
        self._stays.append(stay)
        if hold.reason == Reason.MAKING_ROOM:
            self._given.append(stay)

    def _needless(self, job: PendingJob, keeps: Members) -> Iterator[str]:
        """Victims without whose devices, room and quota the same place is there for `job`.

        Asked where any place costs the same; elsewhere a search may have needed what it does not
        show.
        """
        stopped = self._stopped.get(job.id)
        if not stopped or len(job.groups) > 1 or job.groups[0].request.kind != Access.WHOLE:
            return
        others = [(self._pending[own], held.members) for own, held in self._kept.items()]
        quota = self._quota_soon.fork()
        for keeper, members in others:
            quota.charge(keeper, members)
        devices = devices_of(keeps)
        nodes = {member.node for member in keeps}
        for victim, gone in stopped:
            if devices & devices_of(gone):
                continue
            if nodes & {member.node for member in gone} and not self._fits_beside(
                [*others, (victim, gone), (job, keeps)]
            ):
                continue
            quota.give_back(victim, gone, sign=-1)
            lacks_quota = any(quota.exceeded(job, keeps))
            quota.give_back(victim, gone)
            if not lacks_quota:
                yield f"job {victim.id} is stopped for job {job.id}, which does not need that"

    def _fits_beside(self, gangs: Sequence[tuple[JobSpec, Members]]) -> bool:
        """Whether there is room for all of them soon; no, where one of them bears no company."""
        if any(job.service_class == ServiceClass.LATENCY_CRITICAL for job, _ in gangs):
            return False
        fuller = self._soon.fork()
        return all(is_taken(fuller, job, members) for job, members in gangs)

    def _kept_before(self) -> Iterator[tuple[int, HeldDevices]]:
        """What is kept from earlier cycles and still serves its job, by that job's id."""
        soon = self._soon.fork() if self._snapshot.holds else self._soon
        stopping = {job.stopping_for for job in self._snapshot.running}
        for held in self._snapshot.holds:
            job = self._pending.get(held.job)
            if job is None or (held.until <= self._at and held.job not in stopping):
                continue
            if is_gang_of(job, held.members) and soon.has(job, held.members):
                soon.take(job, held.members)
                yield held.job, held

    def _of_others(self, stay: Stay) -> Iterator[str]:
        """Devices that are kept for jobs that are decided on later."""
        own = held_alone(stay.job, stay.members) if self._kept else set()
        for held in self._kept.values():
            if own & held_alone(self._pending[held.job], held.members):
                yield f"job {stay.job.id} is given what is kept for job {held.job}"

    def _recut(self, change: Repartition) -> Iterator[str]:
        gpu, snapshot = change.gpu, self._snapshot
        if not 0 <= gpu < len(snapshot.gpu_ids):
            yield f"GPU {gpu} is cut anew and does not exist"
            return
        if change.on_behalf_of not in self._pending:
            yield f"GPU {gpu} is cut anew for nobody"
        exclusive = self._fleet.exclusive[gpu] and self._now.whole_gpus()[gpu]
        mig = snapshot.gpu_open[gpu] and snapshot.gpu_mode[gpu] == GpuMode.MIG
        idle = exclusive or (mig and self._now.instances[snapshot.mig_gpu == gpu].all())
        if not idle or gpu in self._recut_gpus:
            yield f"GPU {gpu} is cut anew and is not idle"
        if not snapshot.node_auto_layout[snapshot.gpu_node[gpu]]:
            yield f"GPU {gpu} is cut anew where layouts are not automatic"
        if not can_be_cut_into(snapshot, gpu, change.layout):
            yield f"GPU {gpu} is cut anew into a layout that it cannot have"
        self._recut_gpus.add(gpu)
        self._now.withhold(gpu)

    def _later(self, instant: int) -> Ledger:
        """What is free once all that ends by `instant` has ended."""
        later = self._soon.fork()
        for stay in self._stays:
            if stay.end <= instant:
                later.release(stay.job, stay.members)
        return later

    def _promised(self, plan: Plan) -> Iterator[str]:
        """At the start of each reservation the GPUs that it names are free, others' taken off."""
        reserves = []
        for reserve in plan.of(Reserve):
            if reserve.job not in self._pending:
                yield f"job {reserve.job} has a reservation and is not waiting"
            elif not all(0 <= node < self._fleet.nodes for node, _, _ in reserve.amounts):
                yield f"the reservation of job {reserve.job} is on a node that does not exist"
            elif reserve.start_at < self._at:
                yield f"the reservation of job {reserve.job} is in the past"
            else:
                reserves.append(reserve)
        for reserve in reserves:
            later = self._later(reserve.start_at)
            promised = Counter({node: gpus for node, _, gpus in reserve.amounts})
            for other in reserves:
                ends = self._until(self._pending[other.job], other.start_at)
                if other is not reserve and other.start_at <= reserve.start_at < ends:
                    promised.update({node: gpus for node, _, gpus in other.amounts})
            for node, gpus in promised.items():
                if gpus > later.whole[node]:
                    yield f"the reservation of job {reserve.job} on node {node} is delayed"

    def _blocked(self) -> Iterator[str]:
        """At the start of each block the GPUs that it names are free, save what was taken before.

        Only nodes are looked at on which this plan gives GPUs to others beyond that start.
        """
        for block in self._snapshot.blocks:
            instant = max(block.from_at, self._at)
            met = [stay for stay in self._given if stay.end > instant]
            others = [stay for stay in met if not _is_of(block, stay.job)]
            if block.to_at <= self._at or not others:
                continue
            own = _gpus_by_node([stay for stay in met if _is_of(block, stay.job)])
            if block.from_at <= self._at and block.tenant is not None:
                running = [Stay(job, job.members, 0) for job in self._snapshot.running]
                own.update(_gpus_by_node([stay for stay in running if _is_of(block, stay.job)]))
            taken, later = _gpus_by_node(others), self._later(instant)
            promised: Counter[int] = Counter()
            for node, gpus in block.amounts:
                promised[node] += gpus
            for node, gpus in promised.items():
                if taken[node] and gpus - own[node] > later.whole[node]:
                    yield f"block {block.name} lacks GPUs of node {node} that are given away"

    def _overtaken(self, plan: Plan) -> Iterator[str]:
        """Jobs that start ahead of earlier ones in a strict line that wait for the same GPUs."""
        strict = self._policy.strict
        lines: defaultdict[int, dict[tuple[int, ...], int]] = defaultdict(dict)
        for job, verdict in self._in_turn(plan):
            first = lines[UNKNOWN if strict else job.tenant]
            if isinstance(verdict, Hold):
                recut = verdict.reason == Reason.MAKING_ROOM and not verdict.keeps
                if verdict.reason not in _GIVES_WAY and not recut:
                    first.setdefault(job.flavors, job.id)
            elif strict or self._snapshot.tenant_strict[job.tenant]:
                for flavors, other in first.items():
                    if not flavors or not job.flavors or set(flavors) & set(job.flavors):
                        yield f"job {job.id} overtakes job {other}, which waits in a strict order"
                        break

    def _in_turn(self, plan: Plan) -> list[tuple[PendingJob, Start | Hold]]:
        """Waiting jobs with their verdicts, in the order that they are decided in."""
        verdicts = [
            (self._pending[own.job], own)
            for own in plan.decisions
            if isinstance(own, Start | Hold) and own.job in self._pending
        ]
        if self._policy.order == Order.FIFO:
            verdicts.sort(key=lambda own: (-own[0].priority, own[0].submitted_at, own[0].id))
        return verdicts


_GIVES_WAY = frozenset(
    {
        Reason.ON_HOLD,
        Reason.NOT_BEFORE,
        Reason.DEPENDENCY_FAILED,
        Reason.WAITING_FOR_DEPENDENCY,
        Reason.FOREIGN_GATE,
        Reason.NO_FLAVOR,
        Reason.MEMORY_TOO_SMALL,
        Reason.NEVER_FITS,
        Reason.OVER_CEILING,
        Reason.BUDGET_EXHAUSTED,
    }
)
"""Reasons of jobs that hold nobody up: they could not start on an empty cluster either."""


def _is_of(block: Block, job: JobSpec) -> bool:
    return block.tenant is not None and block.tenant == job.tenant


def _device_count(member: PlacedMember) -> int:
    return len(member.gpus) + len(member.instances) + len(member.slots)


def _gpus_by_node(stays: Iterable[Stay]) -> Counter[int]:
    """Whole GPUs that members hold, by node."""
    found: Counter[int] = Counter()
    for stay in stays:
        for member in stay.members:
            if stay.job.groups[member.group].request.kind == Access.WHOLE:
                found[member.node] += len(member.gpus)
    return found
