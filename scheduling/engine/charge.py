"""What members cost in quota: exact parts of a GPU, by the devices that they hold or would hold."""

from collections.abc import Iterable

from scheduling.engine.fleet import Fleet, named_slice_parts
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, Request
from scheduling.engine.snapshot import PARTS_PER_GPU

MILLI = 1000


def charges(fleet: Fleet, job: JobSpec, members: Iterable[PlacedMember]) -> dict[int, int]:
    """Parts by flavor of placed members; nothing for a standby job, which is not charged."""
    total: dict[int, int] = {}
    if job.standby:
        return total
    for member in members:
        flavor = int(fleet.snapshot.node_flavor[member.node])
        parts = member_parts(fleet, job.groups[member.group].request, member)
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
