"""The rules that members keep where they are put, in sentences: whole gangs, nodes, devices."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import wish_of
from scheduling.engine.jobs import Access, JobSpec, PlacedMember, RunningJob, ServiceClass
from scheduling.engine.ledger import Ledger
from scheduling.engine.snapshot import UNKNOWN, Snapshot
from topology.catalog.gpus import find_model
from topology.catalog.mig import ImpossibleLayoutError, MigInstance, check_layout

Members = tuple[PlacedMember, ...]


class SeatRules:
    """What is wrong with members on the nodes and devices of one snapshot."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._snapshot = fleet.snapshot

    def exist(self, job: JobSpec, members: Members) -> bool:
        """Whether groups, nodes and devices have indexes that there are."""
        snapshot = self._snapshot
        return all(
            0 <= member.group < len(job.groups)
            and 0 <= member.node < len(snapshot.node_ids)
            and all(0 <= gpu < len(snapshot.gpu_ids) for gpu in member.gpus)
            and all(0 <= row < len(snapshot.mig_gpu) for row in member.instances)
            and all(0 <= row < len(snapshot.slot_gpu) for row in member.slots)
            for member in members
        )

    def broken(self, job: JobSpec, members: Members, before: Members = ()) -> Iterator[str]:
        """What the places break by themselves, whatever is free. before: members it has already."""
        suitable = self._fleet.suitable(job.flavors, job.service_class) & self._snapshot.node_open
        for node in _nodes(members):
            if not suitable[node]:
                yield f"job {job.id} is on node {node}, which is not open to it"
            if job.island and len(self._islands((*before, *members), node)) > 1:
                yield f"job {job.id} is in more than one island of node {node}"
        for member in members:
            yield from self._devices(job, member)
            yield from self._kinds(job, member)
        wish = wish_of(job, self._snapshot.taken_at)
        if wish.required is not None:
            domain = self._fleet.domains(wish.required)
            home = {int(domain[member.node]) for member in before or members[:1]}
            if not {int(domain[member.node]) for member in members} <= home:
                yield f"job {job.id} is in more than one {wish.required.name.lower()}"

    def _islands(self, members: Members, node: int) -> set[int]:
        gpus = [gpu for member in members if member.node == node for gpu in member.gpus]
        return {int(self._fleet.island_of[gpu]) for gpu in gpus}

    def _devices(self, job: JobSpec, member: PlacedMember) -> Iterator[str]:
        """Devices too many or too few, of another node, or of boards that are too small."""
        request = job.groups[member.group].request
        wanted = {
            Access.WHOLE: (request.count, 0, 0),
            Access.SLICE: (0, request.count, 0),
            Access.SHARE: (0, 0, request.count),
            Access.FRACTION: (1, 0, 0),
            Access.NONE: (0, 0, 0),
        }
        got = tuple(len(set(own)) for own in (member.gpus, member.instances, member.slots))
        if got != wanted[request.kind]:
            yield f"a member of job {job.id} got the wrong number of devices"
        for gpu in self._boards(member):
            if gpu not in self._fleet.gpus_of(member.node):
                yield f"job {job.id} got GPU {gpu}, which is on another node"
            if self._snapshot.gpu_memory_mib[gpu] < job.gpu_memory_mib:
                yield f"job {job.id} got GPU {gpu}, which is too small"

    def _kinds(self, job: JobSpec, member: PlacedMember) -> Iterator[str]:
        """Devices that are not what the member asks for."""
        snapshot, fleet = self._snapshot, self._fleet
        request = job.groups[member.group].request
        usable = fleet.hami if request.kind == Access.FRACTION else fleet.exclusive
        if not all(usable[gpu] for gpu in member.gpus):
            yield f"job {job.id} got a GPU that it cannot use"
        named = [snapshot.profiles[int(snapshot.mig_profile[row])] for row in member.instances]
        if not all(fleet.instances[row] for row in member.instances):
            yield f"job {job.id} got an instance that it cannot use"
        elif any(name != request.profile for name in named):
            yield f"job {job.id} got an instance of another profile"
        if not all(fleet.slots[row] for row in member.slots):
            yield f"job {job.id} got a replica that it cannot use"
        elif len(member.slots) > 1 and not snapshot.gpu_many[self._boards(member)].all():
            yield f"a member of job {job.id} got replicas where each may have one"

    def _boards(self, member: PlacedMember) -> list[int]:
        snapshot = self._snapshot
        return [
            *member.gpus,
            *(int(snapshot.mig_gpu[row]) for row in member.instances),
            *(int(snapshot.slot_gpu[row]) for row in member.slots),
        ]

    def late(self, job: JobSpec, members: Members, end: int) -> Iterator[str]:
        """Nodes that close before the job ends."""
        for node in _nodes(members):
            if end > self._snapshot.node_closes_at[node]:
                yield f"job {job.id} would not end before node {node} closes"


def unwelcome(
    ledger: Ledger, job: JobSpec, members: Members, before: Members = ()
) -> Iterator[str]:
    """Nodes on which somebody bears no company. before: members of the same gang there."""
    critical = job.service_class == ServiceClass.LATENCY_CRITICAL
    own = Counter(member.node for member in before)
    for node in _nodes(members):
        if ledger.crowd[node] > own[node] if critical else ledger.alone[node]:
            yield f"job {job.id} is on node {node} beside a job that bears no company"


def overfull(ledger: Ledger, job: JobSpec, members: Members) -> Iterator[str]:
    """Boards that have less memory than they gave; of an unknown memory nothing is said."""
    snapshot = ledger.fleet.snapshot
    boards: set[int] = set()
    for member in members:
        if job.groups[member.group].request.gpu_memory_mib:
            boards.update(member.gpus)
            boards.update(
                int(snapshot.slot_gpu[row])
                for row in member.slots
                if snapshot.slot_instance[row] == UNKNOWN
            )
    for gpu in sorted(boards):
        if snapshot.gpu_memory_mib[gpu] > 0 and ledger.gpu_memory[gpu] < 0:
            yield f"job {job.id} got more memory of GPU {gpu} than is free"


def is_taken(ledger: Ledger, job: JobSpec, members: Members) -> bool:
    """Take what members ask for; False if it is not all free."""
    try:
        ledger.take(job, members)
    except AssertionError:
        return False
    return True


def can_be_cut_into(snapshot: Snapshot, gpu: int, layout: Iterable[tuple[str, int]]) -> bool:
    """Whether a board can have these instances, given as (profile, placement start), at once."""
    index = int(snapshot.gpu_model[gpu])
    model = None if index == UNKNOWN else find_model(snapshot.gpu_models[index])
    if model is None:
        return False
    try:
        check_layout(model, [MigInstance(start, profile) for profile, start in layout])
    except ImpossibleLayoutError:
        return False
    return True


def no_gang(job: JobSpec, members: Members) -> Iterator[str]:
    """What keeps members from being a gang that could start."""
    yield from not_whole(job, members)
    counts = Counter(member.group for member in members)
    for index, group in enumerate(job.groups):
        if counts[index] > group.max_member:
            yield f"job {job.id} got {counts[index]} members of group {index}"
    ranks = [(member.group, member.rank) for member in members]
    if any(first >= second for first, second in pairwise(ranks)):
        yield f"the ranks of job {job.id} are not in order"
    if _has_holes(set(ranks)):
        yield f"the ranks of job {job.id} have holes"


def no_growth(job: RunningJob, members: Members) -> Iterator[str]:
    """What keeps members from being the next ones of a running gang."""
    counts = Counter(member.group for member in (*job.members, *members))
    for index, group in enumerate(job.groups):
        if counts[index] > group.max_member:
            yield f"job {job.id} grows above its most"
    before = {(member.group, member.rank) for member in job.members}
    added = {(member.group, member.rank) for member in members}
    repeated = before & added or len(added) < len(members)
    if not _has_holes(before) and (repeated or _has_holes(before | added)):
        yield f"job {job.id} grows by ranks other than the next"


def not_whole(job: JobSpec, members: Members) -> Iterator[str]:
    """What keeps members from being a whole gang."""
    counts = Counter(member.group for member in members)
    for index, group in enumerate(job.groups):
        if counts[index] < group.min_member:
            yield f"job {job.id} has {counts[index]} members of group {index}"
    if len(members) < job.min_members:
        yield f"job {job.id} has {len(members)} members in all"


def _has_holes(ranks: set[tuple[int, int]]) -> bool:
    """Whether the ranks of a group, given as (group, rank), do not run from 0 on without a gap."""
    counts = Counter(group for group, _ in ranks)
    return any(rank >= counts[group] for group, rank in ranks)


def devices_of(members: Iterable[PlacedMember]) -> set[tuple[str, int]]:
    """What kind of device, and its index, of all that members hold or have a part of."""
    found: set[tuple[str, int]] = set()
    for member in members:
        found.update(("gpu", gpu) for gpu in member.gpus)
        found.update(("instance", row) for row in member.instances)
        found.update(("slot", row) for row in member.slots)
    return found


def held_alone(job: JobSpec, members: Members) -> set[tuple[str, int]]:
    """As `devices_of`, without GPUs that members have only a part of."""
    return devices_of(
        own for own in members if job.groups[own.group].request.kind != Access.FRACTION
    )


def _nodes(members: Members) -> list[int]:
    return sorted({member.node for member in members})
