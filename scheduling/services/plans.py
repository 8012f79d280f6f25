"""Carrying a plan out: rows first; what the cluster must do is queued with them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from portal.core.queueing import send_on_commit
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Hold, Plan, Start, Unit, unit_of
from scheduling.engine.snapshot import PARTS_PER_GPU, Snapshot
from scheduling.models import Job, JobGroup, Member, Placement, PlacementGpu
from scheduling.services.lifecycle import move
from scheduling.states import JobState


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan. skipped: starts whose job or devices had changed meanwhile."""

    started: int
    skipped: int
    held: int


def apply_plan(plan: Plan, snapshot: Snapshot, *, at: datetime) -> Applied:
    """Write `plan` down. A decision that meets a changed row is lost alone; the rest goes on.

    at: cluster clock, the snapshot's instant.
    """
    started = sum(_start(start, snapshot, at=at) for start in plan.starts)
    held = _hold(plan.holds, snapshot, at=at)
    return Applied(started=started, skipped=len(plan.starts) - started, held=held)


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
        release_by=Now() + timedelta(seconds=settings.BIND_TIMEOUT_SECONDS),
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


@transaction.atomic
def _hold(holds: tuple[Hold, ...], snapshot: Snapshot, *, at: datetime) -> int:
    """Note on each waiting job why it waits; only what changed is written. How many changed."""
    known = {
        pk: (reason, numbers)
        for pk, reason, numbers in Job.objects.filter(
            pk__in=[hold.job for hold in holds], state=JobState.QUEUED
        ).values_list("pk", "reason", "reason_numbers")
    }
    names = {job.id: job.name for job in (*snapshot.pending, *snapshot.running)}
    changed: dict[tuple[str, str], tuple[list[int], Hold, dict[str, Any]]] = {}
    for hold in holds:
        numbers = readable(hold, names)
        if hold.job in known and known[hold.job] != (hold.reason, numbers):
            key = (hold.reason, repr(numbers))
            changed.setdefault(key, ([], hold, numbers))[0].append(hold.job)
    for ids, hold, numbers in changed.values():
        Job.objects.filter(pk__in=ids, state=JobState.QUEUED).update(
            reason=hold.reason, reason_numbers=numbers, reason_at=at, version=F("version") + 1
        )
    return sum(len(ids) for ids, _, _ in changed.values())


def readable(hold: Hold, names: dict[int, str]) -> dict[str, Any]:
    """A hold's numbers as a person or a program reads them: GPUs, ISO times, public job ids."""
    return {
        key: _readable(value, unit_of(hold.reason, key, value), names)
        for key, value in hold.numbers
    }


def _readable(value: Any, unit: Unit, names: dict[int, str]) -> Any:
    match unit:
        case Unit.PARTS:
            gpus, rest = divmod(value, PARTS_PER_GPU)
            return gpus if not rest else round(value / PARTS_PER_GPU, 3)
        case Unit.INSTANT:
            return datetime.fromtimestamp(value, UTC).isoformat()
        case Unit.JOB:
            return names.get(value, "")
        case Unit.JOBS:
            return [names.get(job, "") for job in value]
        case _:
            return value
