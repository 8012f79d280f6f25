"""The waiting jobs of a cluster, and what is kept for them."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from scheduling.engine.jobs import Dependency, ParentState
from scheduling.engine.snapshot import HeldDevices
from scheduling.models import DeviceHold, Job, JobDependency, JobFlavor
from scheduling.snapshots.caps import over_caps, read_own
from scheduling.snapshots.columns import JOB_COLUMNS, job_rows
from scheduling.snapshots.jobs import HeldDevice, Positions, pending, placed_member
from scheduling.snapshots.known import Kept, fingerprints, of_jobs, unknown
from scheduling.snapshots.times import seconds
from scheduling.states import FINAL, HOLDING, JobState
from topology.models import Cluster


def read_waiting(
    cluster: Cluster, positions: Positions, known: Mapping[int, Kept], at: datetime
) -> dict[int, Kept]:
    """The waiting jobs by key, in queue order. Six queries, and one for those not known."""
    waiting = Job.objects.filter(cluster=cluster).waiting()
    accepted, after, turns = _accepted(cluster, positions), _after(cluster), _turns(cluster)
    own = read_own(Job.objects.filter(cluster=cluster), at)
    over = over_caps(own, after, turns)
    specs = fingerprints(waiting, "pk", JOB_COLUMNS)
    in_order = waiting.in_queue_order().values_list("pk", flat=True)
    seen = {
        job: (
            specs[job],
            accepted.get(job, ()),
            (*after.get(job, ()), *turns.get(job, ())),
            job in over,
        )
        for job in in_order
    }
    new = unknown(seen, known)
    rows = job_rows(of_jobs(waiting, "pk", new))
    return {
        job: Kept(of, pending(rows[job], *of[1:3], positions, is_over=of[3]))
        if job in new
        else known[job]
        for job, of in seen.items()
    }


def _accepted(cluster: Cluster, positions: Positions) -> Mapping[int, tuple[int, ...]]:
    """The flavors that waiting jobs accept, best first, by job. One query."""
    accepted = JobFlavor.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED)
    rows = accepted.order_by("job_id", "rank").values_list("job_id", "flavor_id")
    at = positions.flavors
    return {
        job: tuple(at[flavor] for _, flavor in own if flavor in at)
        for job, own in groupby(rows, key=itemgetter(0))
    }


def _after(cluster: Cluster) -> Mapping[int, tuple[Dependency, ...]]:
    """What waiting jobs wait for, by job. One query."""
    after = JobDependency.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED)
    rows = after.order_by("job_id", "on_id").values_list(
        "job_id", "on_id", "needs_success", "on__state", "on__public_id"
    )
    return {
        job: tuple(
            Dependency(on, needs_success, _parent_state(state), name)
            for _, on, needs_success, state, name in own
        )
        for job, own in groupby(rows, key=itemgetter(0))
    }


def _turns(cluster: Cluster) -> Mapping[int, tuple[Dependency]]:
    """Tasks that wait until one before them has ended, as their array lets only so many run.

    One query. The first in the array go first; one on hold lets the next go.
    """
    tasks = Job.objects.filter(array__cluster=cluster, array__at_once__isnull=False)
    rows = (
        tasks.exclude(state__in=FINAL)
        .order_by("array_id", "array_index")
        .values_list("array_id", "array__at_once", "pk", "public_id", "state", "is_held")
    )
    turns = {}
    for (_, at_once), own in groupby(rows, key=itemgetter(0, 1)):
        waiting, busy = [], []
        for _, _, pk, name, state, is_held in own:
            if state in HOLDING:
                busy.append((pk, name))
            elif not is_held and state == JobState.QUEUED:
                waiting.append((pk, name))
        left = max(at_once - len(busy), 0)
        for pk, _ in waiting[left:]:
            before, name = (busy or waiting)[0]
            turns[pk] = (Dependency(before, needs_success=False, name=name),)
    return turns


def _parent_state(state: str) -> ParentState:
    if state == JobState.SUCCEEDED:
        return ParentState.SUCCEEDED
    return ParentState.FAILED if state in FINAL else ParentState.WAITING


def kept_devices(cluster: Cluster, positions: Positions, at: datetime) -> tuple[HeldDevices, ...]:
    """What is kept for waiting jobs, by job: the members they will be, with their devices."""
    holds = DeviceHold.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED)
    members: dict[tuple[int, int, int, int], list[HeldDevice]] = {}
    until: dict[int, int] = {}
    for hold in holds.order_by("job_id", "group_index", "rank", "node_id", "gpu_id"):
        node = positions.nodes.get(hold.node_id)
        if node is None:
            continue
        devices = members.setdefault((hold.job_id, hold.group_index, hold.rank, node), [])
        if hold.gpu_id is not None:
            share = None if hold.milli else hold.share
            devices.append((hold.gpu_id, hold.instance_id, share))
        until[hold.job_id] = _until(hold, cluster, at)
    by_job = defaultdict(list)
    for (job, group, rank, node), devices in members.items():
        by_job[job].append(placed_member(group, rank, node, devices, positions))
    return tuple(HeldDevices(job, tuple(placed), until[job]) for job, placed in by_job.items())


def _until(hold: DeviceHold, cluster: Cluster, at: datetime) -> int:
    """When `hold` expires: not before one cycle could have used it, however late that comes.

    The clock of a simulated cluster may run on by hours between two cycles.
    """
    planned_at = cluster.planned_at  # of the last cycle
    was_seen_to_expire = planned_at is not None and hold.until <= planned_at
    return seconds(hold.until) if was_seen_to_expire else max(seconds(hold.until), seconds(at) + 1)
