"""The jobs that hold places of a cluster, and how much of it that leaves."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np
from django.db.models import F, FilteredRelation, Q

from scheduling.engine.arrays import IntArray
from scheduling.engine.charge import member_parts
from scheduling.engine.jobs import Access, PlacedMember, Request
from scheduling.engine.snapshot import PARTS_PER_GPU, GpuMode
from scheduling.models import Job, Member, Placement
from scheduling.snapshots.columns import JOB_COLUMNS, PLACE_COLUMNS, job_rows, place_rows
from scheduling.snapshots.hardware import Hardware
from scheduling.snapshots.jobs import Holder, Positions, running
from scheduling.snapshots.known import Kept, fingerprints, of_jobs, unknown
from scheduling.snapshots.times import seconds
from scheduling.states import ENDED_PHASES, JobState
from topology.models import Cluster

WHOLE_GPU_MILLI = 1000


def read_holding(
    cluster: Cluster, positions: Positions, known: Mapping[int, Kept], at: datetime
) -> dict[int, Kept]:
    """The jobs that hold places, by key.

    Three queries, one for jobs that have ended but for some members, and two for those not known.
    """
    places = Placement.objects.active().filter(node__cluster=cluster)
    places = places.annotate(
        held=FilteredRelation("members__devices", condition=Q(members__devices__released_at=None))
    )
    held = fingerprints(places, "job_id", PLACE_COLUMNS)
    jobs = Job.objects.filter(cluster=cluster)
    specs = fingerprints(jobs.holding(), "pk", JOB_COLUMNS)
    # By state they are found without going through all that there ever were; others are few.
    others = jobs.filter(pk__in=held.keys() - specs.keys())
    specs |= fingerprints(others, "pk", JOB_COLUMNS)
    ending = _ending(cluster)
    seen = {job: (specs[job], own, job in ending) for job, own in held.items()}
    new = unknown(seen, known)
    rows = job_rows(of_jobs(jobs.holding() | others, "pk", new))
    own_places = place_rows(of_jobs(places, "job_id", new))
    kept = {}
    for job, of in seen.items():
        own = (rows[job], own_places[job]) if job in new else known[job].rows
        if own is None:
            kept[job] = known[job]
            continue
        made = running(*own, positions, is_ending=job in ending, at=seconds(at))
        # One that has not started yet has run for no time, whenever one looks.
        kept[job] = Kept(of, made, own if own[0][0].started_at is None else None)
    return kept


def _ending(cluster: Cluster) -> set[int]:
    """Running jobs of which some member has run its time: they are near their end. One query."""
    ended = Member.objects.filter(
        job__cluster=cluster,
        job__state=JobState.RUNNING,
        attempt=F("job__attempt"),
        phase__in=ENDED_PHASES,
        is_leaving=False,
    )
    return set(ended.values_list("job_id", flat=True))


def room(holders: Sequence[Holder], hardware: Hardware) -> dict[str, IntArray]:
    """What is free of nodes and devices, and what of the nodes is on its way back."""
    capacity = hardware.parts["capacity"]
    used, releasing = np.zeros_like(capacity), np.zeros_like(capacity)
    taken = [room for holder in holders for room in holder.room]
    node, cpu_milli, memory_mib, is_leaving = np.array(taken, dtype=np.int64).reshape(-1, 4).T
    for row, amounts in enumerate((cpu_milli, memory_mib)):
        np.add.at(used[row], node, amounts)
        np.add.at(releasing[row], node, amounts * is_leaving)
    members = [member for holder in holders for member in holder.job.members]
    milli, memory = _free_of_gpus(holders, hardware)
    milli[_taken_by_others(milli, hardware)] = 0
    slices, shares = (np.ones(len(hardware.parts[name]), bool) for name in ("mig_gpu", "slot_gpu"))
    slices[_numbers(row for member in members for row in member.instances)] = False
    shares[_numbers(row for member in members for row in member.slots)] = False
    return {
        # A node whose room shrank under its jobs has none left, not less than none.
        "free": np.maximum(capacity - used - hardware.foreign, 0),
        "releasing": releasing,
        "gpu_free_milli": milli,
        "gpu_free_memory_mib": memory,
        "mig_free": slices,
        "slot_free": shares,
    }


def _free_of_gpus(holders: Sequence[Holder], hardware: Hardware) -> tuple[IntArray, IntArray]:
    """(G,) thousandths that no member holds; (G,) MiB, of GPUs that are given out by amounts."""
    parts = hardware.parts
    milli = np.full(len(parts["gpu_ids"]), WHOLE_GPU_MILLI)
    memory = np.where(parts["gpu_mode"] == GpuMode.HAMI, parts["gpu_memory_mib"], 0)
    held = [
        (gpu, request.gpu_milli, request.gpu_memory_mib)
        if request.kind == Access.FRACTION
        else (gpu, WHOLE_GPU_MILLI, 0)
        for holder in holders
        for member in holder.job.members
        for request in (holder.job.groups[member.group].request,)
        for gpu in member.gpus
    ]
    gpu, thousandths, mib = np.array(held, dtype=np.int64).reshape(-1, 3).T
    np.subtract.at(milli, gpu, thousandths)
    np.subtract.at(memory, gpu, mib)
    # A GPU that is given out otherwise than when its members came has none left, not less.
    return np.maximum(milli, 0), np.maximum(memory, 0)


def _taken_by_others(milli: IntArray, hardware: Hardware) -> list[int]:
    """Devices that work which is not ours is taken to hold: of the free ones the last of each node.

    milli: (G,) thousandths that no job holds. Which devices it does hold only its node knows.
    """
    parts, taken = hardware.parts, []
    is_free = (milli > 0) & parts["gpu_open"] & (parts["gpu_mode"] == GpuMode.EXCLUSIVE)
    for node in np.flatnonzero(hardware.foreign_gpus):
        first, last = np.searchsorted(parts["gpu_node"], [node, node + 1])
        free = first + np.flatnonzero(is_free[first:last])
        taken += free[max(0, len(free) - hardware.foreign_gpus[node]) :].tolist()
    return taken


def _numbers(numbers: Iterable[int]) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64)


def usage(holders: Sequence[Holder], hardware: Hardware, shape: tuple[int, int]) -> IntArray:
    """(T, F) parts that each tenant's members hold; those that are leaving count too.

    Standby jobs are not charged, nor nodes without a flavor, which have the last one.
    """
    charged = [
        (
            holder.job.tenant,
            member.node,
            _parts(holder.job.groups[member.group].request, member, hardware),
        )
        for holder in holders
        if not holder.job.standby
        for member in holder.job.members
    ]
    tenant, node, cost = np.array(charged, dtype=np.int64).reshape(-1, 3).T
    parts = np.zeros(shape, dtype=np.int64)
    np.add.at(parts, (tenant, hardware.parts["node_flavor"][node]), cost)
    parts[:, -1] = 0
    return parts


def _parts(request: Request, member: PlacedMember, hardware: Hardware) -> int:
    """What a member's devices cost in quota."""
    if request.kind == Access.FRACTION:
        return member_parts(hardware.fleet, request, member) if member.gpus else 0
    slices = sum(int(hardware.instance_parts[row]) for row in member.instances)
    shares = sum(int(hardware.share_parts[row]) for row in member.slots)
    return len(member.gpus) * PARTS_PER_GPU + slices + shares
