"""Where the ledger has each member of a gang, read in two queries whatever its size."""

from collections import defaultdict
from typing import NamedTuple

from scheduling.models import Job, PlacementGpu
from scheduling.models.placement import device_label
from scheduling.states import ENDED_PHASES


class Place(NamedTuple):
    """Of one member. group: its key. devices: as the pod is told of them."""

    group: int
    rank: int
    node: str
    devices: tuple[str, ...]
    has_ended: bool


def places_of(job: Job) -> list[Place]:
    """Those of the job's present attempt, without members that leave it."""
    devices = _devices(job)
    members = job.members.filter(attempt=job.attempt, is_leaving=False).order_by("group_id", "rank")
    rows = members.values_list("pk", "group_id", "rank", "phase", "placement__node__name")
    return [
        Place(group, rank, node, tuple(devices[pk]), phase in ENDED_PHASES)
        for pk, group, rank, phase, node in rows
    ]


def _devices(job: Job) -> dict[int, list[str]]:
    """By member, in the order of their places on the node."""
    held = PlacementGpu.objects.filter(member__job=job, member__attempt=job.attempt)
    in_order = held.order_by("member", "gpu__index", "instance__start", "share")
    found = defaultdict(list)
    for member, *device in in_order.values_list("member", "gpu__index", "instance__start", "share"):
        found[member].append(device_label(*device))
    return found
