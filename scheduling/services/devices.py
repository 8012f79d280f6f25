"""From devices as a plan names them to those of the ledger."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from django.db import IntegrityError

from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.snapshot import PARTS_PER_GPU, Snapshot
from topology.models import MigInstance

_ONE_HOLDER = ("gpu", "instance", "share")


class DeviceGone(Exception):
    """A board was cut anew since the snapshot: it has no such instance any more."""


class Device(NamedTuple):
    """A whole GPU, or an instance or a share of it. parts: what it costs in quota."""

    gpu_id: int
    instance_id: int | None = None
    share: int | None = None
    parts: int = PARTS_PER_GPU


def is_taken(error: IntegrityError) -> bool:
    """Whether a device of the ledger's new rows was taken by somebody else meanwhile."""
    return any(f"{kind}_in_one_active_placement" in str(error) for kind in _ONE_HOLDER)


def devices_of(
    members: Sequence[PlacedMember], snapshot: Snapshot
) -> Callable[[PlacedMember], list[Device]]:
    """What gives the devices of each of `members`. One query if any has MIG instances, else none.

    Raises DeviceGone, at once.
    """
    rows = sorted({row for member in members for row in member.instances})
    instances = dict(zip(rows, _instances(rows, snapshot), strict=True))
    shares = sorted({row for member in members for row in member.slots})
    of_share = dict(zip(shares, _shares(shares, snapshot), strict=True))

    def found(member: PlacedMember) -> list[Device]:
        return [
            *(Device(snapshot.gpu_ids[gpu]) for gpu in member.gpus),
            *(instances[row] for row in member.instances),
            *(of_share[row] for row in member.slots),
        ]

    return found


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
