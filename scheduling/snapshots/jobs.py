from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from scheduling.engine.jobs import (
    Access,
    Dependency,
    Group,
    Level,
    ParentState,
    PendingJob,
    PlacedMember,
    Request,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.snapshot import HeldDevices
from scheduling.models import DeviceHold, Job, JobDependency, JobGroup
from scheduling.snapshots.rows import Held, Rows, is_leaving
from scheduling.snapshots.times import seconds
from scheduling.states import FINAL, JobState

MOST_SHARED: Final = 4_096
"""So many equal requests are one object in all snapshots, which the engine finds equal at once."""


def _spec(job: Job, rows: Rows) -> dict[str, Any]:
    """What a waiting and a running job have in common."""
    accepted = (rows.flavor_at.get(row.flavor_id) for row in rows.accepted.get(job.pk, ()))
    return {
        "id": job.pk,
        "name": job.public_id,
        "tenant": rows.tenant_at[job.tenant_id],
        "groups": tuple(_engine_group(group) for group in rows.groups[job.pk]),
        "priority": job.priority,
        "submitted_at": seconds(job.submitted_at),
        "walltime_seconds": job.walltime_seconds,
        "flavors": tuple(flavor for flavor in accepted if flavor is not None),
        "min_total": job.min_total or 0,
        "preemptible": job.is_preemptible,
        "gpu_memory_mib": job.gpu_memory_mib,
        "required": _level(job.required_level),
        "preferred": _level(job.preferred_level),
        "patience_seconds": job.patience_seconds,
        "island": job.needs_island,
        "service_class": ServiceClass[job.service_class.upper()],
        "standby": job.is_standby,
        "preempted": job.preempted_count,
        "grace_seconds": job.grace_seconds,
    }


def _level(word: str) -> Level | None:
    return Level[word.upper()] if word else None


def _engine_group(group: JobGroup) -> Group:
    request = _request(group.gpus_per_member, group.cpu_milli, group.memory_mib)
    return _group(group.name, group.min_member, group.max_member, request)


@lru_cache(maxsize=MOST_SHARED)
def _group(name: str, least: int, most: int, request: Request) -> Group:
    return Group(name=name, min_member=least, max_member=most, request=request)


@lru_cache(maxsize=MOST_SHARED)
def _request(gpus: int, cpu_milli: int, memory_mib: int) -> Request:
    kind = Access.WHOLE if gpus else Access.NONE
    return Request(kind=kind, count=gpus, cpu_milli=cpu_milli, memory_mib=memory_mib)


def pending(job: Job, rows: Rows) -> PendingJob:
    return PendingJob(
        **_spec(job, rows),
        held=job.is_held,
        not_before=seconds(job.not_before) if job.not_before else None,
        after=tuple(_dependency(row) for row in rows.after.get(job.pk, ())),
    )


def _dependency(row: JobDependency) -> Dependency:
    state = ParentState.WAITING
    if row.on.state == JobState.SUCCEEDED:
        state = ParentState.SUCCEEDED
    elif row.on.state in FINAL:
        state = ParentState.FAILED
    return Dependency(row.on_id, row.needs_success, state, row.on.public_id)


def kept(rows: Rows, at: datetime) -> tuple[HeldDevices, ...]:
    """What is kept for waiting jobs, by job: the members they will be, with their devices."""
    members: dict[tuple[int, int, int, int], list[int]] = {}
    until: dict[int, int] = {}
    for hold in rows.kept:
        node = rows.node_at.get(hold.node_id)
        if node is None:
            continue
        gpus = members.setdefault((hold.job_id, hold.group_index, hold.rank, node), [])
        gpus += [rows.gpu_at[hold.gpu_id]] if hold.gpu_id in rows.gpu_at else []
        until[hold.job_id] = _until(hold, rows, at)
    by_job = defaultdict(list)
    for (job, group, rank, node), gpus in members.items():
        by_job[job].append(PlacedMember(group, rank, node, tuple(sorted(gpus))))
    return tuple(HeldDevices(job, tuple(placed), until[job]) for job, placed in by_job.items())


def _until(hold: DeviceHold, rows: Rows, at: datetime) -> int:
    """When `hold` expires: not before one cycle could have used it, however late that comes.

    The clock of a simulated cluster may run on by hours between two cycles.
    """
    was_seen_to_expire = rows.planned_at is not None and hold.until <= rows.planned_at
    return seconds(hold.until) if was_seen_to_expire else max(seconds(hold.until), seconds(at) + 1)


def running(job: Job, rows: Rows, at: datetime) -> RunningJob:
    """A job with the members that it still holds places for.

    It may grow and shrink as it asked while it is whole and nothing of it is on its way; else it
    needs as many members as it has.
    """
    started = seconds(job.started_at or at)
    held = rows.held.get(job.pk, ())
    spec = _spec(job, rows)
    if not _may_change_size(job, rows):
        spec |= {"groups": _as_large_as_now(spec["groups"], held), "min_total": 0}
    leaving = [member for member in held if member.is_leaving]
    if leaving:
        spec["preemptible"] = False  # one thing after the other
    return RunningJob(
        **spec,
        members=_placed(held),
        started_at=started,
        checkpoint_at=_checkpoint(job, started),
        limit_end_at=started + job.walltime_seconds if job.walltime_seconds else None,
        stopping=is_leaving(job),
        stopping_members=() if is_leaving(job) else _placed(leaving),
        stopping_for=job.stopping_for_id,
        protected_until=seconds(job.protected_until) if job.protected_until else 0,
    )


def _may_change_size(job: Job, rows: Rows) -> bool:
    """Whether every member that it has had still runs on a node that is there, and none is leaving.

    Members end one after the other, so a gang near its end is smaller than it started, and whole
    all the same; that one was lost is what `observation` finds out, not a count.
    """
    held = rows.held.get(job.pk, ())
    is_settled = all(member.is_running and not member.is_leaving for member in held)
    is_whole = job.pk not in rows.ending | rows.cut_off
    return job.state == JobState.RUNNING and is_settled and is_whole


def _as_large_as_now(groups: Sequence[Group], held: Sequence[Held]) -> tuple[Group, ...]:
    counts = Counter(member.group for member in held)
    return tuple(
        replace(group, min_member=counts[index], max_member=counts[index])
        for index, group in enumerate(groups)
    )


def _placed(members: Sequence[Held]) -> tuple[PlacedMember, ...]:
    return tuple(PlacedMember(own.group, own.rank, own.node, own.gpus) for own in members)


def _checkpoint(job: Job, started: int) -> int | None:
    """What is durable of its work; of a job that was resumed, at least what it was resumed from."""
    return None if job.checkpoint_at is None else max(seconds(job.checkpoint_at), started)
