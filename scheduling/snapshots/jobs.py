"""The rows of one job to a job as the engine sees it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from scheduling.engine.jobs import (
    Access,
    Dependency,
    Group,
    Level,
    PendingJob,
    PlacedMember,
    Request,
    RunningJob,
    ServiceClass,
)
from scheduling.snapshots.columns import JobRow, PlaceRow
from scheduling.states import JobState, MemberPhase

MOST_SHARED: Final = 4_096
"""So many equal requests are one object in all snapshots, which the engine finds equal at once."""

HeldDevice = tuple[int, int | None, int | None]
"""Keys: of a GPU; of its MIG instance, or the number of its share, if it is not the whole.

A part of a GPU that is given out by amounts is named by the GPU alone, as the engine has it.
"""

Room = tuple[int, int, int, bool]
"""Of one placement: its node, the CPU and the memory that it holds there, whether it is leaving."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each node, device, tenant and flavor stands in the arrays, by its key.

    shares: by the key of their GPU and their number.
    """

    nodes: Mapping[int, int]
    gpus: Mapping[int, int]
    instances: Mapping[int, int]
    shares: Mapping[tuple[int, int], int]
    tenants: Mapping[int, int]
    flavors: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds places, and what it holds of nodes."""

    job: RunningJob
    room: tuple[Room, ...]


class Held(NamedTuple):
    """One member that holds its place.

    is_running: its container runs. is_leaving: it was told to end while its gang goes on.
    """

    placed: PlacedMember
    placement: int
    is_running: bool
    is_leaving: bool


def pending(
    rows: Sequence[JobRow],
    flavors: tuple[int, ...],
    after: tuple[Dependency, ...],
    positions: Positions,
    *,
    is_over: bool,
) -> PendingJob:
    """A job that waits. rows: one for each group. flavors: those it accepts, best first.

    is_over: its owner may hold no more GPUs at once.
    """
    return PendingJob(
        **_spec(rows, positions),
        flavors=flavors,
        held=rows[0].is_held or is_over,
        gates=tuple(rows[0].foreign_gates),
        not_before=_not_before(rows[0]),
        after=after,
    )


def _not_before(job: JobRow) -> int | None:
    """Before when its owner, or starts of it that failed, do not let it start."""
    said = [at for at in (job.not_before, job.start_again_at) if at is not None]
    return max(said, default=None)


def running(
    rows: Sequence[JobRow],
    places: Sequence[PlaceRow],
    positions: Positions,
    *,
    is_ending: bool,
    at: int,
) -> Holder:
    """A job with the members that it still holds places for. is_ending: some have run their time.

    It may grow and shrink as it asked while it is whole, all on nodes that are there, and nothing
    of it is on its way; else it needs as many members as it has. Members end one after the other,
    so a gang near its end is smaller than it started, and whole all the same; that one was lost is
    what `observation` finds out, not a count.
    """
    job, spec = rows[0], _spec(rows, positions)
    held = _held(rows, places, positions)
    leaving = [member for member in held if member.is_leaving]
    is_settled = all(member.is_running and not member.is_leaving for member in held)
    is_cut_off = any(place.node_id not in positions.nodes for place in places)
    if is_ending or is_cut_off or not is_settled or job.state != JobState.RUNNING:
        spec |= {"groups": _as_large_as_now(spec["groups"], held), "min_total": 0}
    if leaving:
        spec["preemptible"] = False  # one thing after the other
    started = at if job.started_at is None else job.started_at
    stopping = is_leaving(job)
    made = RunningJob(
        **spec,
        members=_placed(held),
        started_at=started,
        checkpoint_at=_checkpoint(job, started),
        limit_end_at=started + job.walltime_seconds if job.walltime_seconds else None,
        stopping=stopping,
        stopping_members=() if stopping else _placed(leaving),
        stopping_for=job.stopping_for_id,
        protected_until=job.protected_until or 0,
    )
    return Holder(made, tuple(_room(rows, places, positions, leaving)))


def is_leaving(job: JobRow) -> bool:
    """Whether it holds only until its members are gone: told to stop, or failed with some left."""
    return job.state not in {JobState.STARTING, JobState.RUNNING}


def _spec(rows: Sequence[JobRow], positions: Positions) -> dict[str, Any]:
    """What a waiting and a running job have in common."""
    job = rows[0]
    return {
        "id": job.id,
        "name": job.public_id,
        "tenant": positions.tenants[job.tenant_id],
        "groups": tuple(_engine_group(row) for row in rows),
        "priority": job.priority,
        "submitted_at": job.submitted_at,
        "walltime_seconds": job.walltime_seconds,
        "min_total": job.min_total or 0,
        "preemptible": job.is_preemptible,
        "gpu_memory_mib": job.gpu_memory_mib,
        "required": _level(job.required_level),
        "preferred": _level(job.preferred_level),
        "patience_seconds": job.patience_seconds,
        "island": job.needs_island,
        "service_class": ServiceClass[job.service_class.upper()],
        "standby": job.is_standby,
        "preempted": job.preempted_count,
        "grace_seconds": job.grace_seconds,
    }


def _level(word: str) -> Level | None:
    return Level[word.upper()] if word else None


def _engine_group(row: JobRow) -> Group:
    room = row.groups__cpu_milli, row.groups__memory_mib
    if row.groups__gpu_milli:
        request = _part(row.groups__gpu_milli, row.groups__gpu_mib, *room)
    else:
        request = _request(*_devices(row), *room)
    return _group(row.groups__name, row.groups__min_member, row.groups__max_member, request)


def _devices(row: JobRow) -> tuple[Access, int, str]:
    """The kind of device that a member asks for, how many, and of which profile."""
    if row.groups__gpus_per_member:
        return Access.WHOLE, row.groups__gpus_per_member, ""
    if row.groups__slices_per_member:
        return Access.SLICE, row.groups__slices_per_member, row.groups__slice_profile
    shares = row.groups__shares_per_member
    return (Access.SHARE, shares, "") if shares else (Access.NONE, 0, "")


@lru_cache(maxsize=MOST_SHARED)
def _group(name: str, least: int, most: int, request: Request) -> Group:
    return Group(name=name, min_member=least, max_member=most, request=request)


@lru_cache(maxsize=MOST_SHARED)
def _request(kind: Access, count: int, profile: str, cpu_milli: int, memory_mib: int) -> Request:
    return Request(
        kind=kind, count=count, profile=profile, cpu_milli=cpu_milli, memory_mib=memory_mib
    )


@lru_cache(maxsize=MOST_SHARED)
def _part(gpu_milli: int, gpu_mib: int, cpu_milli: int, memory_mib: int) -> Request:
    return Request(
        kind=Access.FRACTION,
        gpu_milli=gpu_milli,
        gpu_memory_mib=gpu_mib,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )


def _held(rows: Sequence[JobRow], places: Sequence[PlaceRow], positions: Positions) -> list[Held]:
    """The members on present nodes, in group and rank order."""
    group_at = {row.groups__id: row.groups__index for row in rows}
    own: dict[tuple[int, int, int], PlaceRow] = {}
    devices: dict[int, list[HeldDevice]] = defaultdict(list)
    for place in places:
        member = place.members__id
        if member is None or place.node_id not in positions.nodes:
            continue
        own[group_at[place.members__group_id], place.members__rank, member] = place
        if place.held__gpu_id is not None:
            share = None if place.held__milli else place.held__share
            devices[member].append((place.held__gpu_id, place.held__instance_id, share))
    return [
        Held(
            placed_member(group, rank, positions.nodes[place.node_id], devices[member], positions),
            placement=place.id,
            is_running=place.members__phase == MemberPhase.RUNNING,
            is_leaving=place.members__is_leaving,
        )
        for (group, rank, member), place in sorted(own.items())
    ]


def placed_member(
    group: int, rank: int, node: int, devices: Sequence[HeldDevice], positions: Positions
) -> PlacedMember:
    """A member with those of its devices that are still there."""
    instances = [positions.instances.get(own) for _, own, _ in devices if own is not None]
    shares = [positions.shares.get((gpu, own)) for gpu, _, own in devices if own is not None]
    whole = [positions.gpus.get(gpu) for gpu, *part in devices if part == [None, None]]
    gpus, slices, slots = (
        tuple(sorted(at for at in found if at is not None)) for found in (whole, instances, shares)
    )
    return PlacedMember(group, rank, node, gpus, slices, slots)


def _as_large_as_now(groups: Sequence[Group], held: Sequence[Held]) -> tuple[Group, ...]:
    counts = Counter(member.placed.group for member in held)
    return tuple(
        replace(group, min_member=counts[index], max_member=counts[index])
        for index, group in enumerate(groups)
    )


def _placed(members: Sequence[Held]) -> tuple[PlacedMember, ...]:
    return tuple(member.placed for member in members)


def _checkpoint(job: JobRow, started: int) -> int | None:
    """What is durable of its work; of a job that was resumed, at least what it was resumed from."""
    return None if job.checkpoint_at is None else max(job.checkpoint_at, started)


def _room(
    rows: Sequence[JobRow],
    places: Sequence[PlaceRow],
    positions: Positions,
    leaving: Sequence[Held],
) -> Iterator[Room]:
    """What each placement on a present node holds; it goes with its job, or with its members."""
    asked = {row.groups__id: (row.groups__cpu_milli, row.groups__memory_mib) for row in rows}
    going = {member.placement for member in leaving}
    for place in {place.id: place for place in places}.values():
        node = positions.nodes.get(place.node_id)
        if node is not None:
            cpu_milli, memory_mib = asked[place.group_id]
            is_going = is_leaving(rows[0]) or place.id in going
            count = place.member_count
            yield node, cpu_milli * count, memory_mib * count, is_going
