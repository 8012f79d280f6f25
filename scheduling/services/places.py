"""Where the ledger has each member of gangs, read in three queries however many there are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduling.models import Job, Member, PlacementGpu
from scheduling.models.placement import device_label
from scheduling.querysets import of_attempts
from scheduling.states import ENDED_PHASES
from topology.models import Node


class Place(NamedTuple):
    """Of one member. group: its key. devices: as the pod is told of them.

    claims: UUIDs of its whole GPUs, where its node gives them by claims.
    back_end, part_of: who gives it a part of a GPU, and the UUID of that; none for other devices.
    """

    group: int
    rank: int
    node: str
    devices: tuple[str, ...]
    has_ended: bool
    claims: tuple[str, ...] = ()
    back_end: str = ""
    part_of: tuple[str, ...] = ()

    @property
    def has_whole_gpus(self) -> bool:
        return bool(self.devices) and all(device.isdecimal() for device in self.devices)


class _Held(NamedTuple):
    """A device of a member. is_part: of a GPU that is given out by amounts."""

    label: str
    uuid: str
    mode: str
    is_whole: bool
    is_part: bool


def places_of(job: Job) -> list[Place]:
    """Those of the job's present attempt, without members that leave it."""
    return places_of_all([job])[job.pk]


def places_of_all(jobs: Sequence[Job]) -> Mapping[int, list[Place]]:
    """As `places_of` for many jobs of one cluster, by the keys of the jobs."""
    attempts = {job.pk: job.attempt for job in jobs}
    devices = _devices(attempts)
    claiming = _claiming(attempts)
    members = Member.objects.filter(of_attempts(attempts), is_leaving=False)
    rows = members.order_by("group_id", "rank").values_list(
        "job_id", "pk", "group_id", "rank", "phase", "placement__node__name"
    )
    places = defaultdict(list)
    for job, pk, group, rank, phase, node in rows:
        own = devices[pk]
        place = Place(
            group,
            rank,
            node,
            tuple(device.label for device in own),
            phase in ENDED_PHASES,
            tuple(device.uuid for device in own if device.is_whole) if node in claiming else (),
            next((device.mode for device in own if device.is_part), ""),
            tuple(device.uuid for device in own if device.is_part),
        )
        places[job].append(place)
    return places


def _claiming(attempts: Mapping[int, int]) -> set[str]:
    """Names of nodes of these attempts that give GPUs by claims."""
    own = Node.objects.filter(of_attempts(attempts, via="placements__"))
    return {node.name for node in own.exclude(claimable={}).distinct() if node.gives_by_claim}


def _devices(attempts: Mapping[int, int]) -> dict[int, list[_Held]]:
    """By member, in the order of their places on the node."""
    held = PlacementGpu.objects.filter(of_attempts(attempts, via="member__"))
    in_order = held.order_by("member", "gpu__index", "instance__start", "share")
    found = defaultdict(list)
    parts = ("gpu__index", "instance__start", "share")
    said = ("member", "gpu__uuid", "gpu__mode", "milli", *parts)
    for member, uuid, mode, milli, *device in in_order.values_list(*said):
        is_whole, is_part = device[1:] == [None, None], milli is not None
        found[member].append(_Held(device_label(*device), uuid, mode, is_whole, is_part))
    return found
