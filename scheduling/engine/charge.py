"""What members cost in quota: exact parts of a GPU, by the devices that they hold or would hold."""

from collections.abc import Iterable

import numpy as np

from scheduling.engine.arrays import BoolArray
from scheduling.engine.fleet import Fleet, named_slice_parts
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, Request
from scheduling.engine.snapshot import PARTS_PER_GPU

MILLI = 1000


def charges(fleet: Fleet, job: JobSpec, members: Iterable[PlacedMember]) -> dict[int, int]:
    """Parts by flavor of placed members, of flavors that they cost anything of.

    Nothing for a standby job, which is not charged, nor for members without GPUs.
    """
    total: dict[int, int] = {}
    if job.standby:
        return total
    for member in members:
        parts = member_parts(fleet, job.groups[member.group].request, member)
        if parts:
            flavor = int(fleet.snapshot.node_flavor[member.node])
            total[flavor] = total.get(flavor, 0) + parts
    return total


def member_parts(fleet: Fleet, request: Request, member: PlacedMember) -> int:
    """Parts of the devices that one member holds."""
    if request.kind == Access.WHOLE:
        return len(member.gpus) * PARTS_PER_GPU
    if request.kind == Access.SLICE:
        return sum(int(fleet.instance_parts[row]) for row in member.instances)
    if request.kind == Access.SHARE:
        return sum(int(fleet.slot_parts[row]) for row in member.slots)
    if request.kind == Access.FRACTION:
        memory = int(fleet.snapshot.gpu_memory_mib[member.gpus[0]])
        return _fraction_parts(request, memory)
    return 0


def least_parts(fleet: Fleet, job: JobSpec) -> int:
    """The fewest parts that the members cost which `job` starts with at least."""
    if job.standby:
        return 0
    costs = [least_member_parts(fleet, group.request) for group in job.groups]
    least = sum(group.min_member * cost for group, cost in zip(job.groups, costs, strict=True))
    extra = job.min_members - sum(group.min_member for group in job.groups)
    return least + extra * min(costs)


def least_member_parts(fleet: Fleet, request: Request) -> int:
    """The fewest parts that one member could cost, on whichever devices."""
    snapshot = fleet.snapshot
    if request.kind == Access.WHOLE:
        return request.count * PARTS_PER_GPU
    if request.kind == Access.SLICE:
        return request.count * _least_slice_parts(fleet, request.profile)
    if request.kind == Access.SHARE:
        return request.count * int(fleet.slot_parts.min(initial=PARTS_PER_GPU))
    if request.kind == Access.FRACTION:
        largest = int(snapshot.gpu_memory_mib[fleet.hami].max(initial=0))
        return _fraction_parts(request, largest)
    return 0


def device_count(request: Request) -> int:
    """Devices that one member holds, as budgets count them: a fraction is one."""
    return 1 if request.kind == Access.FRACTION else request.count


def most_devices(job: JobSpec) -> int:
    """The most devices that the members hold which `job` starts with, whichever groups fill up."""
    counts = [device_count(group.request) for group in job.groups]
    sure = sum(group.min_member * count for group, count in zip(job.groups, counts, strict=True))
    extra = job.min_members - sum(group.min_member for group in job.groups)
    return sure + extra * max(counts)


def least_cost_nodes(fleet: Fleet, job: JobSpec) -> BoolArray:
    """(N,) nodes with devices on which members cost least, for each way of asking that differs."""
    snapshot = fleet.snapshot
    nodes = np.ones(fleet.nodes, dtype=np.bool_)
    for kind in {group.request.kind for group in job.groups} & {Access.SHARE, Access.FRACTION}:
        if kind == Access.SHARE:
            least = fleet.slot_parts == fleet.slot_parts.min(initial=PARTS_PER_GPU)
            gpus = snapshot.slot_gpu[least]
        else:
            memory = np.where(fleet.hami, snapshot.gpu_memory_mib, 0)
            gpus = np.flatnonzero(fleet.hami & (memory == memory.max(initial=0)))
        nodes &= np.isin(np.arange(fleet.nodes), snapshot.gpu_node[gpus])
    return nodes


def _least_slice_parts(fleet: Fleet, profile: str) -> int:
    """What the cheapest instance of `profile` costs, by its name where there is none."""
    snapshot = fleet.snapshot
    if profile in snapshot.profiles:
        own = fleet.instance_parts[snapshot.mig_profile == snapshot.profiles.index(profile)]
        if len(own):
            return int(own.min())
    return named_slice_parts(profile)


def _fraction_parts(request: Request, memory_mib: int) -> int:
    """Its thousandths, or its part of the board's memory if that is more."""
    by_milli = request.gpu_milli * PARTS_PER_GPU // MILLI
    if not memory_mib:
        return by_milli
    return max(by_milli, -(-request.gpu_memory_mib * PARTS_PER_GPU // memory_mib))


def charged_gpus(fleet: Fleet, job: JobSpec, members: Iterable[PlacedMember]) -> int:
    """Parts of all devices that members hold, charged or not: what a stop or a run is worth."""
    return sum(member_parts(fleet, job.groups[member.group].request, member) for member in members)
