"""Where the ledger has each member of a gang, read in three queries whatever its size."""

from collections import defaultdict
from typing import NamedTuple

from scheduling.models import Job, PlacementGpu
from scheduling.models.placement import device_label
from scheduling.states import ENDED_PHASES
from topology.models import Node


class Place(NamedTuple):
    """Of one member. group: its key. devices: as the pod is told of them.

    claims: UUIDs of its whole GPUs, where its node gives them by claims.
    """

    group: int
    rank: int
    node: str
    devices: tuple[str, ...]
    has_ended: bool
    claims: tuple[str, ...] = ()

    @property
    def has_whole_gpus(self) -> bool:
        return bool(self.devices) and all(device.isdecimal() for device in self.devices)


def places_of(job: Job) -> list[Place]:
    """Those of the job's present attempt, without members that leave it."""
    devices = _devices(job)
    members = job.members.filter(attempt=job.attempt, is_leaving=False).order_by("group_id", "rank")
    rows = members.values_list("pk", "group_id", "rank", "phase", "placement__node__name")
    claiming = _claiming(job)
    return [
        Place(
            group,
            rank,
            node,
            tuple(label for label, _uuid in devices[pk]),
            phase in ENDED_PHASES,
            tuple(uuid for _label, uuid in devices[pk] if uuid) if node in claiming else (),
        )
        for pk, group, rank, phase, node in rows
    ]


def _claiming(job: Job) -> set[str]:
    """Names of the job's nodes that give GPUs by claims."""
    own = Node.objects.filter(placements__job=job, placements__attempt=job.attempt)
    return {node.name for node in own.exclude(claimable={}).distinct() if node.gives_by_claim}


def _devices(job: Job) -> dict[int, list[tuple[str, str]]]:
    """By member, in the order of their places on the node: label, and UUID if it is a whole GPU."""
    held = PlacementGpu.objects.filter(member__job=job, member__attempt=job.attempt)
    in_order = held.order_by("member", "gpu__index", "instance__start", "share")
    found = defaultdict(list)
    parts = ("gpu__index", "instance__start", "share")
    for member, uuid, *device in in_order.values_list("member", "gpu__uuid", *parts):
        is_whole = device[1:] == [None, None]
        found[member].append((device_label(*device), uuid if is_whole else ""))
    return found
