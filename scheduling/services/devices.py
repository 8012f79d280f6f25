"""From devices as a plan names them to those of the ledger."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from django.db import IntegrityError

from scheduling.engine.charge import member_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, PlacedMember, Request
from scheduling.engine.snapshot import PARTS_PER_GPU, Snapshot
from scheduling.models import JobGroup
from topology.models import MigInstance

_ONE_HOLDER = ("gpu", "instance", "share")


class DeviceGone(Exception):
    """A board was cut anew since the snapshot, or has no longer the room that was planned with."""


class Device(NamedTuple):
    """A whole GPU, or an instance or a share of it. parts: what it costs in quota.

    milli, mib: of a share of a GPU that is given out by amounts; `seats` numbers it.
    """

    gpu_id: int
    instance_id: int | None = None
    share: int | None = None
    parts: int = PARTS_PER_GPU
    milli: int | None = None
    mib: int | None = None


def is_taken(error: IntegrityError) -> bool:
    """Whether a device of the ledger's new rows was taken by somebody else meanwhile."""
    return any(f"{kind}_in_one_active_placement" in str(error) for kind in _ONE_HOLDER)


def devices_of(
    members: Sequence[PlacedMember], snapshot: Snapshot
) -> Callable[[PlacedMember, Request], list[Device]]:
    """What gives the devices of each of `members`, by what it asked for.

    One query if any has MIG instances, else none.

    Raises DeviceGone, at once.
    """
    rows = sorted({row for member in members for row in member.instances})
    instances = dict(zip(rows, _instances(rows, snapshot), strict=True))
    shares = sorted({row for member in members for row in member.slots})
    of_share = dict(zip(shares, _shares(shares, snapshot), strict=True))

    @cache
    def fleet() -> Fleet:
        return Fleet(snapshot)

    def found(member: PlacedMember, request: Request) -> list[Device]:
        if request.kind == Access.FRACTION:
            parts = member_parts(fleet(), request, member)
            amounts = {"milli": request.gpu_milli, "mib": request.gpu_memory_mib}
            return [Device(snapshot.gpu_ids[member.gpus[0]], parts=parts, **amounts)]
        return [
            *(Device(snapshot.gpu_ids[gpu]) for gpu in member.gpus),
            *(instances[row] for row in member.instances),
            *(of_share[row] for row in member.slots),
        ]

    return found


def request_of(group: JobGroup) -> Request:
    """What tells the devices of a group's members: how much of a GPU, if it is by amounts."""
    if not group.gpu_milli:
        return Request()
    return Request(kind=Access.FRACTION, gpu_milli=group.gpu_milli, gpu_memory_mib=group.gpu_mib)


def _instances(rows: Sequence[int], snapshot: Snapshot) -> Iterable[Device]:
    if not rows:
        return
    parts = Fleet(snapshot).instance_parts
    gpus = {row: snapshot.gpu_ids[snapshot.mig_gpu[row]] for row in rows}
    present = MigInstance.objects.filter(gpu__in=set(gpus.values()), gone_at=None)
    there = {(own.gpu_id, own.start, own.profile): own.pk for own in present}
    for row in rows:
        profile = snapshot.profiles[snapshot.mig_profile[row]]
        instance = there.get((gpus[row], int(snapshot.mig_start[row]), profile))
        if instance is None:
            raise DeviceGone
        yield Device(gpus[row], instance_id=instance, parts=int(parts[row]))


def _shares(rows: Sequence[int], snapshot: Snapshot) -> Iterable[Device]:
    """The shares of a GPU stand together, in the order of their numbers."""
    if not rows:
        return
    parts = Fleet(snapshot).slot_parts
    for row in rows:
        gpu = snapshot.slot_gpu[row]
        number = row - int(np.searchsorted(snapshot.slot_gpu, gpu))
        yield Device(snapshot.gpu_ids[gpu], share=number, parts=int(parts[row]))
