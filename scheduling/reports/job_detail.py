from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import prefetch_related_objects

from scheduling.models import Job, JobEvent, Member, Placement
from scheduling.reports.devices_given import (
    DevicesGiven,
    MemberDevices,
    devices_given,
    member_devices,
)
from scheduling.reports.preemptions import preemption_texts
from scheduling.states import JobState
from topology.models import Gpu

MOST_MEMBERS_SHOWN = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member of the present attempt, with the devices it holds or held.

    gpus: whole ones. parts: slices and shares, as 5@4 for that of GPU 5 that starts at 4, and 5#2
    for its share 2. devices: beside what its node gave it.
    """

    member: Member
    node: str
    gpus: tuple[Gpu, ...]
    parts: tuple[str, ...]
    devices: MemberDevices
    ran_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """Where the time went, by the cluster's clock.

    run_seconds: first container start to last container end of the present attempt.
    held_gpu_seconds: GPUs × time from bound to released, over all attempts; running and starting,
    stopping and what was lost to a restart are all in it.
    run_gpu_seconds: GPUs × time that containers ran, over all attempts.
    """

    run_seconds: float | None
    held_gpu_seconds: float
    run_gpu_seconds: float

    @property
    def other_gpu_seconds(self) -> float:
        return max(0.0, self.held_gpu_seconds - self.run_gpu_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    since: datetime
    members: tuple[MemberRow, ...]
    member_count: int
    devices: DevicesGiven  # of those that are shown
    events: tuple[JobEvent, ...]
    times: JobTimes
    stops: tuple[str, ...]  # sentences: how it made room, or others for it


def job_detail(job: Job, *, at: datetime) -> JobDetail:
    """Everything below the head of a job's page. Nine queries. at: cluster clock."""
    members = list(
        job.members.select_related("placement__node", "group")
        .prefetch_related("devices__gpu", "devices__instance")
        .order_by("attempt", "group__index", "rank")
    )
    events = tuple(job.events.select_related("actor").order_by("pk"))
    placed = job.state != JobState.QUEUED
    present = [member for member in members if placed and member.attempt == job.attempt]
    shown = present[:MOST_MEMBERS_SHOWN]
    prefetch_related_objects(shown, "placement__node__gpus")
    rows = tuple(_row(member, at) for member in shown)
    return JobDetail(
        since=events[-1].at if events else job.submitted_at,
        members=rows,
        devices=devices_given([row.devices for row in rows]),
        member_count=len(present),
        events=events,
        times=_times(job, members, present, at=at),
        stops=preemption_texts(job),
    )


def _row(member: Member, at: datetime) -> MemberRow:
    devices = sorted(member.devices.all(), key=lambda device: device.place)
    return MemberRow(
        member=member,
        node=member.placement.node.name,
        gpus=tuple(device.gpu for device in devices if device.is_whole),
        parts=tuple(device.label for device in devices if not device.is_whole),
        devices=member_devices(member),
        ran_seconds=_ran(member, at),
    )


def _ran(member: Member, at: datetime) -> float | None:
    if member.started_at is None:
        return None
    return max(0.0, (_end(member, at) - member.started_at).total_seconds())


def _end(member: Member, at: datetime) -> datetime:
    """When it ended, or its place was taken from it before anybody saw its end, or now."""
    return member.ended_at or member.placement.released_at or at


def _times(
    job: Job, members: Sequence[Member], present: Sequence[Member], *, at: datetime
) -> JobTimes:
    placements = job.placements.select_related("group")
    return JobTimes(
        run_seconds=_run_seconds(present, at),
        held_gpu_seconds=sum(_held(placement, at) for placement in placements),
        run_gpu_seconds=sum(
            (_ran(member, at) or 0.0) * member.group.devices_per_member for member in members
        ),
    )


def _run_seconds(present: Sequence[Member], at: datetime) -> float | None:
    started = [member for member in present if member.started_at is not None]
    if not started:
        return None
    first = min(member.started_at for member in started)
    last = max(_end(member, at) for member in started)
    return max(0.0, (last - first).total_seconds())


def _held(placement: Placement, at: datetime) -> float:
    seconds = ((placement.released_at or at) - placement.bound_at).total_seconds()
    return max(0.0, seconds) * placement.member_count * placement.group.devices_per_member
