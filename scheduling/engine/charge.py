"""What members cost in quota: exact parts of a GPU, by the devices that they hold or would hold."""

from collections.abc import Iterable

from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, Request
from scheduling.engine.snapshot import PARTS_PER_GPU


def member_parts(request: Request) -> int:
    """Parts that one member costs, whichever devices it gets."""
    if request.kind == Access.WHOLE:
        return request.count * PARTS_PER_GPU
    return 0


def least_parts(job: JobSpec) -> int:
    """Parts that the members cost which `job` starts with at least."""
    groups = job.groups
    parts = sum(group.min_member * member_parts(group.request) for group in groups)
    extra = job.min_members - sum(group.min_member for group in groups)
    return parts + extra * min(member_parts(group.request) for group in groups)


def charges(fleet: Fleet, job: JobSpec, members: Iterable[PlacedMember]) -> dict[int, int]:
    """Parts by flavor of placed members."""
    total: dict[int, int] = {}
    for member in members:
        flavor = int(fleet.snapshot.node_flavor[member.node])
        parts = member_parts(job.groups[member.group].request)
        total[flavor] = total.get(flavor, 0) + parts
    return total
