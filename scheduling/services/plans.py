"""Carrying a plan out: rows first; what the cluster must do is queued with them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from portal.core.queueing import send_on_commit
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Plan, Preempt, Start
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job, JobGroup, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import move, stop
from scheduling.services.verdicts import note_holds, note_reservations
from scheduling.states import JobState

# Times the time to bind: how long the start itself may wait for a worker. See binding.bind.
_PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan. skipped: decisions whose job or devices had changed meanwhile."""

    started: int
    skipped: int
    held: int
    stopped: int = 0


def apply_plan(plan: Plan, snapshot: Snapshot, *, at: datetime) -> Applied:
    """Write `plan` down. A decision that meets a changed row is lost alone; the rest goes on.

    at: cluster clock, the snapshot's instant.
    """
    preemptions = tuple(plan.of(Preempt))
    # First the rooms that are kept, so that what victims give back is never without an owner.
    held = note_holds(plan.holds, snapshot, at=at)
    stopped = sum(_preempt(preemption, snapshot, at=at) for preemption in preemptions)
    started = sum(_start(start, snapshot, at=at) for start in plan.starts)
    note_reservations(plan, snapshot, at=at)
    return Applied(
        started=started,
        stopped=stopped,
        skipped=len(plan.starts) + len(preemptions) - started - stopped,
        held=held,
    )


def _preempt(preemption: Preempt, snapshot: Snapshot, *, at: datetime) -> bool:
    """Stop one job, to be queued again; False when it ended or was stopped since the snapshot."""
    job = Job.objects.displaceable().filter(pk=preemption.job).first()
    if job is None:
        return False
    claimant = preemption.on_behalf_of
    names = {waiting.id: waiting.name for waiting in snapshot.pending}
    reason = f"preempted for {names[claimant]}" if claimant else "below its minimum"
    return stop(
        job,
        towards=JobState.QUEUED,
        at=at,
        reason=reason,
        stopping_for_id=claimant,
        preempted_count=F("preempted_count") + (1 if claimant else 0),
    )


def _start(start: Start, snapshot: Snapshot, *, at: datetime) -> bool:
    """Start one job; False when somebody changed it or took a device since the snapshot."""
    try:
        with transaction.atomic():
            return _write_start(start, snapshot, at=at)
    except IntegrityError as error:
        if "gpu_in_one_active_placement" not in str(error):
            raise
        return False


def _write_start(start: Start, snapshot: Snapshot, *, at: datetime) -> bool:
    # Locked, so that nobody holds or cancels it between this look and the change.
    waiting = Job.objects.select_for_update().filter(state=JobState.QUEUED, is_held=False)
    job = waiting.filter(pk=start.job).first()
    if job is None:
        return False
    attempt = job.attempt + 1
    gpu_ids = [snapshot.gpu_ids[gpu] for member in start.members for gpu in member.gpus]
    move(
        job,
        JobState.STARTING,
        at=at,
        reason="placed",
        attempt=attempt,
        release_by=Now() + timedelta(seconds=settings.BIND_TIMEOUT_SECONDS) * _PATIENCE,
    )
    _write_ledger(job, start.members, snapshot, at=_not_before_release(gpu_ids, at))
    send_on_commit("scheduling.bind_job", job_id=job.pk, attempt=attempt)
    return True


def _not_before_release(gpu_ids: Iterable[int], at: datetime) -> datetime:
    """`at`, or the instant at which the last of the devices became free, if a clock ran ahead."""
    released = PlacementGpu.objects.filter(gpu__in=list(gpu_ids)).aggregate(last=Max("released_at"))
    return max(at, released["last"] or at)


def _write_ledger(
    job: Job, members: tuple[PlacedMember, ...], snapshot: Snapshot, *, at: datetime
) -> None:
    """One placement per group and node, one member row per member, one device row per GPU."""
    groups: list[JobGroup] = list(job.groups.order_by("index"))
    counts: dict[tuple[int, int], int] = {}
    for member in members:
        counts[member.group, member.node] = counts.get((member.group, member.node), 0) + 1
    placements = {
        (group, node): Placement(
            job=job,
            group=groups[group],
            node_id=snapshot.node_ids[node],
            attempt=job.attempt,
            member_count=count,
            bound_at=at,
        )
        for (group, node), count in counts.items()
    }
    Placement.objects.bulk_create(placements.values())
    rows = [
        Member(
            job=job,
            group=groups[member.group],
            placement=placements[member.group, member.node],
            attempt=job.attempt,
            rank=member.rank,
        )
        for member in members
    ]
    Member.objects.bulk_create(rows)
    PlacementGpu.objects.bulk_create(
        PlacementGpu(placement=row.placement, member=row, gpu_id=snapshot.gpu_ids[gpu])
        for row, member in zip(rows, members, strict=True)
        for gpu in member.gpus
    )
