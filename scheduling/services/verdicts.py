"""What a plan says of the jobs that do not start: reasons, reservations, devices kept."""

from collections.abc import Container
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Hold, Plan, Reason, Reserve, Unit, unit_of
from scheduling.engine.snapshot import Snapshot
from scheduling.models import DeviceHold, Job, Reservation
from scheduling.models.parts import as_gpus
from scheduling.services.devices import Device, DeviceGone, devices_of
from scheduling.services.lifecycle import move
from scheduling.snapshots.caps import OWN_CAP, cap_numbers
from scheduling.states import JobState

_NO_DEVICE = DeviceHold()
_KEPT = (
    "job_id",
    "group_index",
    "rank",
    "node_id",
    "gpu_id",
    "instance_id",
    "share",
    "milli",
    "until",
)


@transaction.atomic
def note_holds(holds: tuple[Hold, ...], snapshot: Snapshot, *, at: datetime) -> int:
    """Note on each waiting job why it waits; only what changed is written. How many changed."""
    known = {
        pk: (reason, numbers)
        for pk, reason, numbers in Job.objects.filter(
            pk__in=[hold.job for hold in holds], state=JobState.QUEUED
        ).values_list("pk", "reason", "reason_numbers")
    }
    names = {job.id: job.name for job in (*snapshot.pending, *snapshot.running)}
    reason: str
    changed: dict[tuple[str, str], tuple[list[int], str, dict[str, Any]]] = {}
    turns, caps = _turns(holds), cap_numbers(snapshot)
    for hold in holds:
        if hold.job in caps:
            reason, numbers = OWN_CAP, caps[hold.job]
        else:
            reason, numbers = hold.reason, readable(hold, names) | turns.get(hold.job, {})
        if hold.job in known and known[hold.job] != (reason, numbers):
            key = (reason, repr(numbers))
            changed.setdefault(key, ([], reason, numbers))[0].append(hold.job)
    for ids, reason, numbers in changed.values():
        Job.objects.filter(pk__in=ids, state=JobState.QUEUED).update(
            reason=reason, reason_numbers=numbers, reason_at=at, version=F("version") + 1
        )
    _fail_dependants(holds, known, at=at)
    _keep_devices(holds, snapshot)
    return sum(len(ids) for ids, _, _ in changed.values())


def _turns(holds: tuple[Hold, ...]) -> dict[int, dict[str, int]]:
    """How many tasks of its array run at once, of each job that waits for another task of it."""
    waits = {
        hold.job: dict(hold.numbers)["job"]
        for hold in holds
        if hold.reason == Reason.WAITING_FOR_DEPENDENCY
    }
    if not waits:
        return {}
    limited = Job.objects.filter(pk__in={*waits, *waits.values()}, array__at_once__isnull=False)
    rows = limited.values_list("pk", "array_id", "array__at_once")
    array = {pk: (array, at_once) for pk, array, at_once in rows}
    return {
        job: {"at_once": array[job][1]}
        for job, parent in waits.items()
        if job in array and array[job] == array.get(parent)
    }


def _fail_dependants(holds: tuple[Hold, ...], known: Container[int], *, at: datetime) -> None:
    """A job whose dependency failed has failed, at once."""
    lost = [h.job for h in holds if h.reason == Reason.DEPENDENCY_FAILED and h.job in known]
    for job in Job.objects.waiting().filter(pk__in=lost).order_by("pk"):
        move(job, JobState.FAILED, at=at, reason="a job that it waited for failed", ended_at=at)


def _keep_devices(holds: tuple[Hold, ...], snapshot: Snapshot) -> None:
    """The devices kept for waiting jobs are those of this plan, and no others.

    What was kept before expires when that was said: the snapshot may have put that off for a cycle.
    """
    there = DeviceHold.objects.filter(node__in=snapshot.node_ids)
    known = set(there.values_list(*_KEPT))
    said = {row[0]: row[-1] for row in known}
    shown = {held.job: held.until for held in snapshot.holds}

    def expiry(hold: Hold) -> datetime:
        if hold.job in said and shown.get(hold.job) == hold.keeps_until:
            return said[hold.job]
        return datetime.fromtimestamp(hold.keeps_until or snapshot.taken_at, UTC)

    wanted = [
        DeviceHold(
            job_id=hold.job,
            group_index=member.group,
            rank=member.rank,
            node_id=snapshot.node_ids[member.node],
            gpu_id=device.gpu_id,
            instance_id=device.instance_id,
            share=device.share,
            milli=device.milli,
            until=expiry(hold),
        )
        for hold in holds
        for member, device in _kept(hold, snapshot)
    ]
    if {tuple(getattr(row, name) for name in _KEPT) for row in wanted} != known:
        there.delete()
        DeviceHold.objects.bulk_create(wanted)


def _kept(hold: Hold, snapshot: Snapshot) -> list[tuple[PlacedMember, Device | DeviceHold]]:
    """What is kept for each member; nothing where a board was cut anew since the snapshot."""
    if not hold.keeps:
        return []
    try:
        devices = devices_of(hold.keeps, snapshot)
    except DeviceGone:
        return []
    groups = next(job.groups for job in snapshot.pending if job.id == hold.job)
    return [
        (member, own)
        for member in hold.keeps
        for own in devices(member, groups[member.group].request) or [_NO_DEVICE]
    ]


@transaction.atomic
def note_reservations(plan: Plan, snapshot: Snapshot, *, at: datetime) -> None:
    """The reservations of the snapshot's jobs are this plan's; one that did not change stays."""
    promised = {reserve.job: _reservation(reserve, snapshot, at=at) for reserve in plan.of(Reserve)}
    there = {
        row.job_id: row
        for row in Reservation.objects.filter(job__in=[job.id for job in snapshot.pending])
    }
    gone = [
        row.pk
        for job, row in there.items()
        if job not in promised or _promise(row) != _promise(promised[job])
    ]
    Reservation.objects.filter(pk__in=gone).delete()
    Reservation.objects.bulk_create(
        row
        for job, row in promised.items()
        if job not in there or _promise(there[job]) != _promise(row)
    )


def _promise(row: Reservation) -> tuple[datetime, list[list[Any]]]:
    return row.start_at, row.amounts


def _reservation(reserve: Reserve, snapshot: Snapshot, *, at: datetime) -> Reservation:
    return Reservation(
        job_id=reserve.job,
        start_at=datetime.fromtimestamp(reserve.start_at, UTC),
        amounts=[[snapshot.node_names[node], *amount] for node, *amount in reserve.amounts],
        decided_at=at,
    )


def readable(hold: Hold, names: dict[int, str]) -> dict[str, Any]:
    """A hold's numbers as a person or a program reads them: GPUs, ISO times, public job ids."""
    return {
        key: _readable(value, unit_of(hold.reason, key, value), names)
        for key, value in hold.numbers
    }


def _readable(value: Any, unit: Unit, names: dict[int, str]) -> Any:
    match unit:
        case Unit.PARTS:
            return as_gpus(value)
        case Unit.INSTANT:
            return datetime.fromtimestamp(value, UTC).isoformat()
        case Unit.JOB:
            return names.get(value, "")
        case Unit.JOBS:
            return [names.get(job, "") for job in value]
        case _:
            return value
