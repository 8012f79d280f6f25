"""One cycle: a verdict for every waiting job of one cluster."""

from collections.abc import Mapping
from dataclasses import replace

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.charge import charges
from scheduling.engine.dependencies import Dependencies
from scheduling.engine.desk import Desk
from scheduling.engine.diagnosis import Doctor
from scheduling.engine.growing import Gang, gangs_in_order, missing_members, more_members
from scheduling.engine.horizon import end_of
from scheduling.engine.jobs import JobSpec, PendingJob, PlacedMember
from scheduling.engine.layouts import find_repartition
from scheduling.engine.memory import Memory
from scheduling.engine.order import Queue
from scheduling.engine.placing import Placer
from scheduling.engine.plan import (
    Decision,
    Grow,
    Hold,
    Numbers,
    Plan,
    Preempt,
    Reason,
    Reserve,
    Shrink,
    Start,
    Why,
)
from scheduling.engine.policy import Policy
from scheduling.engine.preemption import RoomMaker, merged
from scheduling.engine.quality import quality_of
from scheduling.engine.reserve import count_reserved, earliest, is_crowded_out, promise
from scheduling.engine.snapshot import UNKNOWN, Snapshot

Members = tuple[PlacedMember, ...]


def plan_cycle(snapshot: Snapshot, policy: Policy, memory: Memory | None = None) -> Plan:
    """What to do with every waiting job now: start it and where, make room for it, or say why not.

    Pure: the same snapshot and policy give the same plan, byte for byte. memory: of the cycle
    before, which spares this one work and changes nothing else.
    """
    cycle = _Cycle(snapshot, policy, memory)
    cycle.mend_broken_gangs()
    cycle.decide_all()
    cycle.grow_elastic_gangs()
    return Plan(snapshot.taken_at, tuple(cycle.decisions()))


def verdict_on(snapshot: Snapshot, policy: Policy, job_id: int) -> Start | Hold:
    """The verdict that `plan_cycle` gives one waiting job, save that a start is not yet grown.

    Those decided after it are not looked at. Raises KeyError if it is not waiting.
    """
    cycle = _Cycle(snapshot, policy)
    cycle.mend_broken_gangs()
    for job in cycle.queue:
        cycle.decide(job)
        verdict = cycle.desk.decisions[-1]
        if job.id == job_id and isinstance(verdict, Start | Hold):
            return verdict
    raise KeyError(f"job {job_id} is not waiting")


class _Cycle:
    """The order of the steps; what they change lies on the desk."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory | None = None) -> None:
        self.desk = Desk(snapshot, policy, memory)
        self.placer = Placer(self.desk)
        self.dependencies = Dependencies(snapshot)
        self.doctor = Doctor(self.desk, self.placer)
        self.queue = Queue(self.desk)
        self.room_maker = RoomMaker(self.desk, self.placer)
        self._started: dict[int, int] = {}
        self._is_strict = policy.strict or bool(snapshot.tenant_strict.any())
        self._first_waiting: dict[int, dict[tuple[int, ...], PendingJob]] = {}
        self._answers: dict[object, Why] = {}
        self._answers_at = -1
        self._may_make_room = True
        self._vain: set[object] = set()
        self._vain_at = 0

    def decisions(self) -> list[Decision]:
        """Everything decided, with reservations where they came to lie in the end."""
        moved = self.desk.reserved
        return [
            moved.get(own.job, own) if isinstance(own, Reserve) else own
            for own in self.desk.decisions
        ]

    def mend_broken_gangs(self) -> None:
        """Make gangs that lost members whole from free room, or take them down whole."""
        desk = self.desk
        broken = [
            Gang(job, job.members, end_of(job, desk.policy, desk.at))
            for job in desk.running.values()
            if not job.is_whole(job.members)
        ]
        for gang in gangs_in_order(broken):
            added = missing_members(desk, gang)
            if added:
                desk.occupy(gang.job, added, gang.end)
                self._add(Grow(gang.job.id, added))
            else:
                desk.stop(desk.running[gang.job.id], gang.members)
                self._add(Preempt(gang.job.id, None))
            desk.changed.add(gang.job.id)

    def decide_all(self) -> None:
        """Add the verdicts on all waiting jobs, in their order.

        Most of a long queue is told what a job alike was told, and so is never looked at.
        """
        desk = self.desk
        for job in self.queue:
            if self._answers and self._answers_at == desk.version and not self._is_strict:
                answer = self._answers.get(self._likeness(job))
                if answer is not None and not _is_apart(job) and job.id not in desk.kept:
                    desk.decisions.append(Hold(job.id, *answer))
                    continue
            self.decide(job)

    def decide(self, job: PendingJob) -> None:
        """Add the verdict on `job`."""
        why = self._barred(job)
        blocker = self._strict_blocker(job) if self._is_strict else None
        answer = None if why or blocker else self._answer_of_its_like(job)
        if answer is not None:
            self._hold_in_turn(job, answer)
            return
        why = why or self.doctor.impossible(job)
        if why is not None:
            self._hold(job, why)
            return
        members = None if blocker else self.placer.find(job)
        if members is not None:
            self._start(job, members)
        elif blocker is not None or not self._make_room(job):
            self._wait(job, blocker)

    def _barred(self, job: PendingJob) -> Why | None:
        """What keeps `job` from starting whatever the cluster looks like."""
        if not _is_apart(job):
            return None
        return (
            self.dependencies.failed(job)
            or _waits_by_itself(job, self.desk.at)
            or self.dependencies.waiting(job)
            or _foreign_gate(job)
        )

    def grow_elastic_gangs(self) -> None:
        """Give what remains to started and running elastic gangs, in order."""
        desk = self.desk
        gangs = [
            Gang(job, job.members, end_of(job, desk.policy, desk.at))
            for job in desk.elastic
            if job.id in desk.running and job.id not in desk.changed
        ]
        for job_id, index in self._started.items():
            start = desk.decisions[index]
            job = desk.job(job_id)
            if job.is_elastic and isinstance(start, Start):
                gangs.append(Gang(job, start.members, desk.until(job)))
        for gang in gangs_in_order(gangs):
            added = more_members(desk, gang)
            if added:
                desk.occupy(gang.job, added, gang.end)
                self._grown(gang, added)

    def _grown(self, gang: Gang, added: Members) -> None:
        index = self._started.get(gang.job.id)
        if index is None:
            self._add(Grow(gang.job.id, added))
            return
        desk = self.desk
        start = desk.decisions[index]
        members = tuple(
            sorted(gang.members + added, key=lambda member: (member.group, member.rank))
        )
        if isinstance(start, Start):
            desk.decisions[index] = replace(
                start,
                members=members,
                borrowed=self._borrows(gang.job, charges(desk.fleet, gang.job, members)),
                quality=quality_of(desk.fleet, gang.job, members),
            )

    def _start(self, job: PendingJob, members: Members) -> None:
        desk = self.desk
        ahead = bool(self._reserved_in(members))
        used = desk.start(job, members)
        self._started[job.id] = len(desk.decisions)
        self._add(
            Start(
                job.id,
                members,
                borrowed=self._borrows(job, used),
                backfill=ahead,
                quality=quality_of(desk.fleet, job, members),
            )
        )
        self.queue.started(job)

    def _borrows(self, job: JobSpec, used: Mapping[int, int]) -> bool:
        """Whether the tenant of `job` is above its nominal in a flavor that it uses."""
        return any(self.desk.books.borrows(job.tenant, flavor) for flavor in used)

    def _reserved_in(self, members: Members) -> int:
        """How many reservations were made before in the flavors of these nodes."""
        if not self.desk.promises.all:
            return 0
        node_flavor = self.desk.snapshot.node_flavor
        flavors = {int(node_flavor[member.node]) for member in members}
        return count_reserved(self.desk, tuple(sorted(flavors)))

    def _make_room(self, job: PendingJob) -> bool:
        """Keep what is on its way for `job`, or stop others for it; False if nothing helps."""
        desk = self.desk
        if desk.is_room_coming(job):
            _, soon = desk.view(job)
            start = desk.soon_at
            members = self.placer.find_on(soon, job, desk.quota_soon(job), start=start)
            if members is not None:
                self._keep(job, members)
                return True
        if job.id in desk.kept:
            desk.unkeep(job)
        if self._tried_in_vain(job):
            return False
        room = self.room_maker.make_room(job)
        if room is None:
            self._vain.add(self._effort(job))
            return False
        for victim in merged(room.victims):
            desk.stop(victim.job, victim.members)
            desk.changed.add(victim.job.id)
            whole = victim.is_whole
            self._add(
                Preempt(victim.job.id, job.id)
                if whole
                else Shrink(victim.job.id, victim.members, job.id)
            )
        self._keep(job, room.members)
        return True

    def _effort(self, job: PendingJob) -> object:
        """Jobs of equal effort fail alike to make room, as long as none comes free."""
        desk = self.desk
        return desk.kind(job), job.tenant, job.priority, job.standby, desk.until(job)

    def _tried_in_vain(self, job: PendingJob) -> bool:
        if self._vain_at != self.desk.roomier:
            self._vain, self._vain_at = set(), self.desk.roomier
        return self._effort(job) in self._vain

    def _keep(self, job: PendingJob, members: Members) -> None:
        desk = self.desk
        held = desk.kept.get(job.id)
        until = desk.at + desk.policy.hold_expiry if held is None else held.until
        desk.keep(job, members, until)
        victims = desk.leaving_from(members)
        numbers: Numbers = (("until", until),)
        if victims:
            numbers += (("victims", victims),)
        self._add(Hold(job.id, Reason.MAKING_ROOM, numbers, members, until))
        if self._is_strict:
            self._goes_on_waiting(job)

    def _wait(self, job: PendingJob, blocker: PendingJob | None) -> None:
        """Promise `job` a place if it is its turn, and say why it waits."""
        desk = self.desk
        change = None if blocker else find_repartition(desk, job)
        if change is not None:
            self._add_all(change)
            until = desk.at + desk.policy.hold_expiry
            self._hold(job, (Reason.MAKING_ROOM, (("until", until),)))
            return
        why = self.doctor.why(job, blocker)
        is_in_turn = blocker is None and self._lacks_room(job, why)
        if is_in_turn and not self._all_reserved(job):
            why = self._reserve(job, why)
        elif blocker is None and self._is_like_others(job):
            self._answers[self._likeness(job)] = why
        self._hold_in_turn(job, why)

    def _lacks_room(self, job: PendingJob, why: Why) -> bool:
        """Whether `job` waits for room, and not for quota that it would lack with room as well.

        In a cohort whose quota is that of all its GPUs, whoever lacks room lacks quota too.
        """
        if why[0] != Reason.QUOTA_EXHAUSTED:
            return True
        return is_crowded_out(self.desk, job) and self.placer.is_full(job)

    def _answer_of_its_like(self, job: PendingJob) -> Why | None:
        """What a job alike was told since anything changed last: equal jobs share the work."""
        desk = self.desk
        if self._answers_at != desk.version:
            self._answers, self._answers_at = {}, desk.version
            self._may_make_room = bool(desk.leaving) or self.room_maker.has_candidates
        if not self._answers or job.id in desk.kept:
            return None
        return self._answers.get(self._likeness(job))

    def _likeness(self, job: PendingJob) -> object:
        """What the answer to a waiting job hangs on while nothing changes.

        Its end only counts by the windows before it, unless room could be made for it.
        """
        desk = self.desk
        claim = desk.claim(job)
        if self._may_make_room:
            return claim, job.priority, desk.until(job)
        if not desk.has_windows:
            return claim
        return claim, desk.windows_before(desk.until(job))

    def _is_like_others(self, job: PendingJob) -> bool:
        """Whether any job with the same `_likeness` would be told the same."""
        desk = self.desk
        if self._answers_at != desk.version or job.id in desk.kept:
            return False
        if desk.budget[job.tenant] < UNLIMITED:
            return False
        return self._may_make_room or self.placer.is_out_of_question(job)

    def _reserve(self, job: PendingJob, why: Why) -> Why:
        """Promise `job` a place; names whom it waits for if that never comes free."""
        desk = self.desk
        chance = earliest(desk, job)
        if chance is not None:
            decision = promise(desk, job, chance)
            self._add(decision)
            return why
        return self.doctor.with_endless(job, why)

    def _all_reserved(self, job: PendingJob) -> bool:
        """Whether as many jobs of a flavor that `job` accepts have a reservation as may have."""
        desk = self.desk
        return count_reserved(desk, desk.claim(job).flavors) >= desk.policy.reservations

    def _strict_blocker(self, job: PendingJob) -> PendingJob | None:
        """The earlier waiting job that nothing of this tenant, or of anybody, may overtake."""
        desk = self.desk
        if not desk.policy.strict and not desk.snapshot.tenant_strict[job.tenant]:
            return None
        for flavors, other in self._first_waiting.get(self._line(job), {}).items():
            if not flavors or not job.flavors or set(flavors) & set(job.flavors):
                return other
        return None

    def _line(self, job: PendingJob) -> int:
        """Whose line `job` stands in where the order is strict: everybody's, or its tenant's."""
        return UNKNOWN if self.desk.policy.strict else job.tenant

    def _goes_on_waiting(self, job: PendingJob) -> None:
        self._first_waiting.setdefault(self._line(job), {}).setdefault(job.flavors, job)

    def _hold_in_turn(self, job: PendingJob, why: Why) -> None:
        """Let `job` wait for a place, which those behind it may have to respect."""
        if self._is_strict:
            self._goes_on_waiting(job)
        self._hold(job, why)

    def _hold(self, job: PendingJob, why: Why) -> None:
        """Let `job` wait; what is kept for it stays kept until that expires."""
        reason, numbers = why
        held = self.desk.kept.get(job.id)
        if held is None:
            self._add(Hold(job.id, reason, numbers))
        else:
            self._add(Hold(job.id, reason, numbers, held.members, held.until))

    def _add(self, decision: Decision) -> None:
        self.desk.decisions.append(decision)

    def _add_all(self, decisions: tuple[Decision, ...]) -> None:
        self.desk.decisions.extend(decisions)


def _is_apart(job: PendingJob) -> bool:
    """Whether anything but the state of the cluster may keep `job` waiting."""
    return bool(job.held or job.after or job.gates or job.not_before is not None)


def _waits_by_itself(job: PendingJob, at: int) -> Why | None:
    if job.held:
        return Reason.ON_HOLD, ()
    if job.not_before is not None and job.not_before > at:
        return Reason.NOT_BEFORE, (("at", job.not_before),)
    return None


def _foreign_gate(job: PendingJob) -> Why | None:
    return (Reason.FOREIGN_GATE, (("gate", job.gates[0]),)) if job.gates else None
