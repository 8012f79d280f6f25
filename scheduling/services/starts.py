"""Writing starts down: the ledger's rows, for many jobs at a time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from portal.core.queueing import send_on_commit
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Start
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job, JobGroup, Member, Placement, PlacementGpu
from scheduling.services.devices import Device, DeviceGone, devices_of, is_taken, request_of
from scheduling.services.lifecycle import move_all
from scheduling.services.seats import take_seats
from scheduling.states import JobState

BATCH = 100  # starts to a transaction: long enough to be cheap, short enough to lock nobody out
TOGETHER = 25  # jobs of one member: cheap for a worker, and few enough for several to share them
# Times the time to bind: how long the start itself may wait for a worker. See binding.bind.
_PATIENCE = 10


def start_all(starts: Sequence[Start], snapshot: Snapshot, *, at: datetime) -> int:
    """How many of `starts` happened: not those whose job or devices changed since the snapshot.

    at: cluster clock.
    """
    batches = (starts[first : first + BATCH] for first in range(0, len(starts), BATCH))
    return sum(_start(batch, snapshot, at=at) for batch in batches)


def _start(starts: Sequence[Start], snapshot: Snapshot, *, at: datetime) -> int:
    """A device that was taken meanwhile costs its own job alone: then they go one by one."""
    try:
        with transaction.atomic():
            return _write(starts, snapshot, at=at)
    except DeviceGone:
        pass
    except IntegrityError as error:
        if not is_taken(error):
            raise
    if len(starts) == 1:
        return 0
    return sum(_start((start,), snapshot, at=at) for start in starts)


def _write(starts: Sequence[Start], snapshot: Snapshot, *, at: datetime) -> int:
    # Locked, so that nobody holds or cancels one between this look and the change.
    waiting = Job.objects.select_for_update().filter(state=JobState.QUEUED, is_held=False)
    jobs = list(waiting.filter(pk__in=[start.job for start in starts]).order_by("pk"))
    attempt = F("attempt") + 1
    won = move_all(
        jobs, JobState.STARTING, at=at, reason="placed", attempt=attempt, release_by=release_by()
    )
    for job in won:
        job.attempt += 1
    members = {start.job: start.members for start in starts}
    _ask_to_bind([job for job in won if len(members[job.pk]) > 1], at_a_time=1)
    _ask_to_bind([job for job in won if len(members[job.pk]) == 1], at_a_time=TOGETHER)
    write_ledger({job: members[job.pk] for job in won}, snapshot, at=at)
    return len(won)


def _ask_to_bind(jobs: Sequence[Job], *, at_a_time: int) -> None:
    """Have the starts carried out, so many by one worker."""
    for first in range(0, len(jobs), at_a_time):
        own = jobs[first : first + at_a_time]
        if len(own) == 1:
            send_on_commit("scheduling.bind_job", job_id=own[0].pk, attempt=own[0].attempt)
        else:
            starts = [[job.pk, job.attempt] for job in own]
            send_on_commit("scheduling.bind_jobs", cluster_id=own[0].cluster_id, starts=starts)


def release_by() -> CombinedExpression:
    """Until when members must be on their nodes, while no worker has begun with it."""
    return Now() + timedelta(seconds=settings.BIND_TIMEOUT_SECONDS) * _PATIENCE


def write_ledger(
    placed: dict[Job, tuple[PlacedMember, ...]], snapshot: Snapshot, *, at: datetime
) -> None:
    """One placement per group and node, one member row per member, one row per device.

    Raises DeviceGone.
    """
    groups = _groups(placed)
    devices = devices_of([m for members in placed.values() for m in members], snapshot)
    own = {
        job: [(m, devices(m, request_of(groups[job.pk, m.group]))) for m in members]
        for job, members in placed.items()
    }
    bound_at = _bound_at(own, at)
    counts = Counter((job, m.group, m.node) for job, members in placed.items() for m in members)
    placements = {
        (job, group, node): Placement(
            job=job,
            group=groups[job.pk, group],
            node_id=snapshot.node_ids[node],
            attempt=job.attempt,
            member_count=count,
            bound_at=bound_at[job],
        )
        for (job, group, node), count in counts.items()
    }
    Placement.objects.bulk_create(placements.values())
    rows = [
        (
            found,
            Member(
                job=job,
                group=groups[job.pk, member.group],
                placement=placements[job, member.group, member.node],
                attempt=job.attempt,
                rank=member.rank,
            ),
        )
        for job, members in own.items()
        for member, found in members
    ]
    Member.objects.bulk_create(row for _, row in rows)
    held = [
        PlacementGpu(placement=row.placement, member=row, **device._asdict())
        for found, row in rows
        for device in found
    ]
    take_seats(held)
    PlacementGpu.objects.bulk_create(held)


def _groups(jobs: Iterable[Job]) -> dict[tuple[int, int], JobGroup]:
    """The groups of `jobs`, by job and by their place among its groups."""
    groups: dict[tuple[int, int], JobGroup] = {}
    seen: Counter[int] = Counter()
    for group in JobGroup.objects.filter(job__in=list(jobs)).order_by("job_id", "index"):
        groups[group.job_id, seen[group.job_id]] = group
        seen[group.job_id] += 1
    return groups


def _bound_at(
    own: Mapping[Job, Sequence[tuple[PlacedMember, list[Device]]]], at: datetime
) -> dict[Job, datetime]:
    """`at`, or when the last of a job's devices became free, if a clock ran ahead."""
    gpus = {
        job: [device.gpu_id for _member, found in members for device in found]
        for job, members in own.items()
    }
    used = PlacementGpu.objects.filter(gpu__in=[gpu for ids in gpus.values() for gpu in ids])
    free_since = dict(used.values_list("gpu").annotate(Max("released_at")))
    return {
        job: max([at, *(when for gpu in ids if (when := free_since.get(gpu)) is not None)])
        for job, ids in gpus.items()
    }
