"""Why a job is held: the first thing that is true of it, with its numbers."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from scheduling.engine.access import allowance, open_until, tiers
from scheduling.engine.arrays import NEVER, UNLIMITED, BoolArray, IntArray
from scheduling.engine.charge import charges, least_cost_nodes, most_devices
from scheduling.engine.claims import Claim
from scheduling.engine.desk import Desk
from scheduling.engine.fit import member_slots
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import Place, fits_gang, place_gang, place_members
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import Access, Group, JobSpec, Level, PendingJob, Request, ServiceClass
from scheduling.engine.layouts import can_be_cut, profile_to_cut
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.placing import Placer, blocking_promise
from scheduling.engine.plan import Number, Numbers, Reason, Why
from scheduling.engine.policy import Order
from scheduling.engine.promises import Promise
from scheduling.engine.quota import AnyBooks
from scheduling.engine.reserve import waits_for


class Doctor:
    """Finds out why jobs do not start, on what-if ledgers that are made once and on demand.

    Equal demands get equal answers as long as nothing changes, and are looked into once.
    """

    def __init__(self, desk: Desk, placer: Placer) -> None:
        self._desk = desk
        self._placer = placer
        self._unfit = desk.memory.unfit
        self._impossible: dict[Claim, Why | None] = {}
        self._crowded: dict[Any, Why] = {}
        self._version = -1

    @cached_property
    def _empty(self) -> Ledger:
        """The cluster without jobs, every node open and every device repaired."""
        snapshot = self._desk.snapshot
        return Ledger(
            Fleet(
                replace(
                    snapshot,
                    free=snapshot.capacity,
                    node_open=np.ones_like(snapshot.node_open),
                    gpu_open=np.ones_like(snapshot.gpu_open),
                    gpu_free_milli=np.full_like(snapshot.gpu_free_milli, WHOLE_MILLI),
                    gpu_free_memory_mib=snapshot.gpu_memory_mib,
                    mig_open=np.ones_like(snapshot.mig_open),
                    mig_free=np.ones_like(snapshot.mig_free),
                    slot_free=np.ones_like(snapshot.slot_free),
                    running=(),
                )
            )
        )

    @cached_property
    def _repaired(self) -> Fleet:
        """The cluster as it is, with every device repaired."""
        snapshot = self._desk.snapshot
        return Fleet(
            replace(
                snapshot,
                gpu_open=np.ones_like(snapshot.gpu_open),
                mig_open=np.ones_like(snapshot.mig_open),
            )
        )

    def impossible(self, job: PendingJob) -> Why | None:
        """Why no state of this cluster, of its tenant's quota or its budget lets `job` start."""
        claim = self._desk.claim(job)
        if claim not in self._impossible:
            self._impossible[claim] = self._unfit_for_good(job, claim)
        why = self._impossible[claim] or self._over_budget(job)
        return why if why is None or why[0] != Reason.NEVER_FITS else self._never_fits(job)

    def _unfit_for_good(self, job: PendingJob, claim: Claim) -> Why | None:
        if claim.kind not in self._unfit:
            self._unfit[claim.kind] = self._find_unfit(job)
        return self._unfit[claim.kind] or self._over_ceiling(claim)

    def why(self, job: PendingJob, blocker: PendingJob | None) -> Why:
        """Why `job`, which could start in principle, does not start now."""
        desk = self._desk
        flavors = tuple(
            sorted({own for tier in tiers(desk, job, desk.quota_now(job)) for own in tier})
        )
        if not flavors:
            return self._quota_exhausted(job, desk.quota_now(job))
        if self._version != desk.version:
            self._version, self._crowded = desk.version, {}
        held = job.id if job.id in desk.kept else None
        key = desk.kind(job), flavors, desk.windows_before(desk.until(job)), held
        if key not in self._crowded:
            found = self._room(job, flavors)
            if found is None:
                return self._in_turn(job, blocker)
            self._crowded[key] = found
        return self._crowded[key]

    def with_endless(self, job: PendingJob, why: Why) -> Why:
        """The same reason, ending with the job that never ends if `job` can only wait for one."""
        reason, numbers = why
        if reason not in {Reason.FRAGMENTED, Reason.NO_ROOM}:
            return why
        endless = waits_for(self._desk, job)
        return why if endless is None else (reason, (*numbers, ("waits_for", endless)))

    def _find_unfit(self, job: PendingJob) -> Why | None:
        suitable = self._empty.fleet.suitable(job.flavors, job.service_class)
        snapshot = self._desk.snapshot
        if job.flavors and not np.isin(snapshot.node_flavor, job.flavors).any():
            return Reason.NO_FLAVOR, ()
        if job.gpu_memory_mib:
            own = snapshot.gpu_memory_mib[suitable[snapshot.gpu_node]]
            largest = int(own.max(initial=0))
            if largest < job.gpu_memory_mib:
                numbers = ("need", job.gpu_memory_mib), ("largest", largest)
                return Reason.MEMORY_TOO_SMALL, numbers
        place = Place(suitable, self._desk.claim(job).wish)
        if fits_gang(self._empty, job, place) or can_be_cut(self._desk, job):
            return None
        return Reason.NEVER_FITS, ()

    def _never_fits(self, job: PendingJob) -> Why:
        desk = self._desk
        suitable = self._empty.fleet.suitable(job.flavors, job.service_class)
        open_now = desk.open_nodes(job, ())
        for group in job.groups:
            if not (member_slots(self._empty, job, group.request) * suitable).any():
                return Reason.NEVER_FITS, (
                    ("largest", _largest_member(self._empty, job, group, allowed=suitable)),
                    ("now", _largest_member(desk.ledger, job, group, allowed=open_now)),
                    ("level", Level.NODE.name.lower()),
                )
        required = desk.claim(job).wish.required
        level: Numbers = () if required is None else (("level", required.name.lower()),)
        return Reason.NEVER_FITS, (
            ("largest", most_members(self._empty, job, suitable, required=required)),
            ("now", most_members(desk.ledger, job, open_now, required=required)),
            *level,
        )

    def _over_ceiling(self, claim: Claim) -> Why | None:
        asked = claim.parts
        if not asked:
            return None
        limit = max(self._ceiling(claim, flavor) for flavor in claim.flavors)
        return (
            (Reason.OVER_CEILING, (("limit", limit), ("asked", asked))) if asked > limit else None
        )

    def _ceiling(self, claim: Claim, flavor: int) -> int:
        ceiling = self._desk.books.ceiling(claim.tenant, flavor)
        if claim.preemptible or ceiling >= UNLIMITED:
            return ceiling
        return min(ceiling, self._desk.books.nominal[claim.tenant][flavor])

    def _over_budget(self, job: PendingJob) -> Why | None:
        desk = self._desk
        left, devices = desk.budget[job.tenant], most_devices(job)
        if left >= UNLIMITED or not devices:
            return None
        duration = duration_of(job, desk.policy)
        asked: Number = "unlimited" if duration == NEVER else devices * duration
        if isinstance(asked, int) and asked <= left:
            return None
        return Reason.BUDGET_EXHAUSTED, (("left", left), ("asked", asked))

    def _quota_exhausted(self, job: PendingJob, books: AnyBooks, *, asked: int = 0) -> Why:
        """asked: what the devices at hand cost, where others would cost less."""
        desk = self._desk
        claim = desk.claim(job)
        left = {flavor: allowance(books, claim, flavor) for flavor in claim.flavors}
        flavor = max(left, key=lambda own: (left[own], -own))
        names = desk.snapshot.tenant_names + desk.snapshot.cohort_names
        row = books.exhausted_at(job.tenant, flavor)
        if left[flavor] < books.available(job.tenant, flavor):
            row = job.tenant
        free = max(0, left[flavor])
        return Reason.QUOTA_EXHAUSTED, (
            ("at", names[row]),
            ("free", free),
            ("asked", asked or claim.parts),
        )

    def _room(self, job: PendingJob, flavors: tuple[int, ...]) -> Why | None:
        """What is wrong with the room there is; None if there is enough, promises apart."""
        desk = self._desk
        ledger, _ = desk.view(job)
        wish = desk.claim(job).wish
        allowed = open_until(desk, job, flavors, desk.at)
        if fits_gang(ledger, job, Place(allowed, wish)):
            return None
        anyhow = desk.open_nodes(job, flavors)
        members = place_gang(ledger, job, Place(anyhow, wish))
        if members is not None:
            closes = desk.snapshot.node_closes_at[[member.node for member in members]]
            return Reason.MAINTENANCE, (("from", int(closes.min())),)
        fits = most_members(ledger, job, allowed, required=wish.required)
        if self._fits_repaired(job, ledger, Place(allowed, wish)):
            return Reason.UNHEALTHY, (("missing", max(1, job.min_members - fits)),)
        profile = profile_to_cut(desk, ledger, job)
        if profile is not None:
            return Reason.LAYOUT_NEEDED, (("profile", profile),)
        critical = job.service_class == ServiceClass.LATENCY_CRITICAL
        company = ledger.crowd if critical else ledger.alone
        pooled = pooled_members(ledger, job, allowed & (company == 0))
        if pooled < job.min_members:
            return Reason.NO_ROOM, (("missing", job.min_members - pooled),)
        anywhere = most_members(ledger, job, allowed, required=None)
        together = wish.required is not None and anywhere >= job.min_members
        level = wish.required if together and wish.required is not None else Level.NODE
        largest = min(fits if together else anywhere, job.min_members - 1)  # or it would fit
        numbers = ("free", pooled), ("largest", largest), ("level", level.name.lower())
        return Reason.FRAGMENTED, numbers

    def _fits_repaired(self, job: PendingJob, ledger: Ledger, place: Place) -> bool:
        snapshot = self._desk.snapshot
        if snapshot.gpu_open.all() and snapshot.mig_open.all():
            return False
        return fits_gang(ledger.fork(self._repaired), job, place)

    def _in_turn(self, job: PendingJob, blocker: PendingJob | None) -> Why:
        """Why a job that there is room for is not let go ahead."""
        desk = self._desk
        if blocker is not None:
            return Reason.STRICT_ORDER, (("job", blocker.id),)
        ledger, _ = desk.view(job)
        met = blocking_promise(desk, job, ledger)
        if met is None:
            asked = self._cost_at_hand(job, ledger)
            return self._quota_exhausted(job, desk.quota_now(job), asked=asked)
        if duration_of(job, desk.policy) == NEVER:
            at_most = self._longest(job)
            if at_most is not None:
                return Reason.NO_WALLTIME, (("at_most", at_most),)
        return Reason.WOULD_DELAY, (("job", _owner(met)), ("at", self._begin_of(met)))

    def _begin_of(self, met: Promise) -> int:
        """When it starts, or a block began that is under way."""
        begun = [own.from_at for own in self._desk.snapshot.blocks if own.name == met.name]
        return begun[0] if met.owner is None and begun else met.start

    def _cost_at_hand(self, job: PendingJob, ledger: Ledger) -> int:
        """What `job` would cost on the cheapest devices that are free, in parts of one flavor."""
        desk = self._desk
        wish, allowed = desk.claim(job).wish, desk.open_until(job, (), desk.until(job))
        for nodes in (allowed & least_cost_nodes(desk.fleet, job), allowed):
            members = place_gang(ledger, job, Place(nodes, wish))
            if members is not None:
                return max(charges(desk.fleet, job, members).values(), default=0)
        return desk.claim(job).parts

    def _longest(self, job: PendingJob) -> int | None:
        """The longest walltime with which `job` would start now.

        None as well where nobody can say: in the expansion order a shorter walltime is an earlier
        turn, at which devices may still be kept for jobs that lose them later in this cycle.
        """
        desk = self._desk
        if desk.policy.order == Order.EXPANSION and desk.snapshot.holds:
            return None
        ledger, _ = desk.view(job)
        spans = {own.start - desk.at for own in desk.promises.all if own.start > desk.at}
        for span in sorted(spans, reverse=True):
            shorter = replace(job, walltime_seconds=span)
            if self._placer.find_on(ledger, shorter, desk.quota_now(job), start=desk.at):
                return span
        return None


def _owner(promise: Promise) -> Number:
    return promise.name if promise.owner is None else promise.owner


def most_members(
    ledger: Ledger, job: JobSpec, allowed: BoolArray, *, required: Level | None
) -> int:
    """The most members of the gang's minimum in one domain of a level, or in the cluster."""
    if required is None:
        return _members_inside(ledger, job, allowed)
    domain = ledger.fleet.domains(required)
    if len(job.groups) == 1:
        slots = np.where(allowed, member_slots(ledger, job, job.groups[0].request), 0)
        largest = np.bincount(domain, weights=slots).max(initial=0)
        return int(min(largest, _most_of(job, 0, 0)))
    inside = [allowed & (domain == own) for own in np.unique(domain)]
    return max((_members_inside(ledger, job, own) for own in inside), default=0)


def _members_inside(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> int:
    what_if, total = ledger, 0
    for index, group in enumerate(job.groups):
        slots = np.where(allowed, member_slots(what_if, job, group.request), 0)
        count = min(int(slots.sum()), _most_of(job, index, total))
        total += count
        if index + 1 < len(job.groups) and count:
            alone = replace(group, min_member=count, max_member=count)
            only = replace(job, groups=(alone,), min_total=0)
            placed = place_members(what_if, only, (count,), place=Place(allowed)) or ()
            what_if = what_if.fork()
            what_if.take(only, placed, seated=False)
    return total


def _most_of(job: JobSpec, group: int, before: int) -> int:
    """How many members of a group count towards the gang's minimum, `before` of others had."""
    later = sum(other.min_member for other in job.groups[group + 1 :])
    room = max(job.groups[group].min_member, job.min_members - before - later)
    return min(job.groups[group].max_member, room)


def pooled_members(ledger: Ledger, job: JobSpec, allowed: BoolArray) -> int:
    """How many members of the minimum what is free in all would do for, wherever it lies."""
    free: IntArray = np.minimum(ledger.amounts(), 1 << 40)[:, allowed].sum(axis=1)
    total = 0
    for index, group in enumerate(job.groups):
        if ledger.fleet.vector(group.request) is None:
            continue
        need = ledger.fleet.need(group.request)
        shares = [int(free[row] // need[row]) for row in np.flatnonzero(need)]
        count = max(0, min([_most_of(job, index, total), *shares]))
        free = free - count * need
        total += count
    return total


def _largest_member(ledger: Ledger, job: JobSpec, group: Group, *, allowed: BoolArray) -> int:
    """The most GPUs, or instances or replicas, that one member could have on one node."""
    request = group.request
    if request.kind in {Access.NONE, Access.FRACTION}:
        return 0
    one: Request = replace(request, count=1)
    slots = np.where(allowed, member_slots(ledger, job, one), 0)
    return int(slots.max(initial=0))
