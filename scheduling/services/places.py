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
        labels = tuple(label for label, _uuid in devices[pk])
        uuids = tuple(uuid for _label, uuid in devices[pk] if uuid) if node in claiming else ()
        places[job].append(Place(group, rank, node, labels, phase in ENDED_PHASES, uuids))
    return places


def _claiming(attempts: Mapping[int, int]) -> set[str]:
    """Names of nodes of these attempts that give GPUs by claims."""
    own = Node.objects.filter(of_attempts(attempts, via="placements__"))
    return {node.name for node in own.exclude(claimable={}).distinct() if node.gives_by_claim}


def _devices(attempts: Mapping[int, int]) -> dict[int, list[tuple[str, str]]]:
    """By member, in the order of their places on the node: label, and UUID if it is a whole GPU."""
    held = PlacementGpu.objects.filter(of_attempts(attempts, via="member__"))
    in_order = held.order_by("member", "gpu__index", "instance__start", "share")
    found = defaultdict(list)
    parts = ("gpu__index", "instance__start", "share")
    for member, uuid, *device in in_order.values_list("member", "gpu__uuid", *parts):
        is_whole = device[1:] == [None, None]
        found[member].append((device_label(*device), uuid if is_whole else ""))
    return found
