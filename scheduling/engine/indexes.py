"""Whether jobs, holds and blocks of a snapshot from a file can be meant, and name what there is.

A cycle does not ask this again: who takes a snapshot of a cluster looks the indexes up.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from scheduling.engine.jobs import Access, Group, JobSpec, PlacedMember, Request, RunningJob
from scheduling.engine.snapshot import Snapshot

_COUNTED: Final = {Access.WHOLE, Access.SLICE, Access.SHARE}
_AMOUNTS: Final = ("count", "gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib")
_LENGTHS: Final = ("walltime_seconds", "patience_seconds", "grace_seconds")
_MOST_SHOWN: Final = 40


class MisfitError(ValueError):
    """A part that its field cannot take; the message begins with the way to it."""

    @classmethod
    def of(cls, wanted: str, found: Any) -> Self:
        """`found`, a plain value, is not what is wanted."""
        if isinstance(found, list | dict):
            shown = "a list" if isinstance(found, list) else "an object"
        else:
            shown = json.dumps(found, ensure_ascii=False)[:_MOST_SHOWN]
        return cls(f"must be {wanted}, not {shown}")

    def inside(self, place: str) -> Self:
        """The same of a part of something: `.name` of a field, `[3]` of an item."""
        what = str(self)
        return type(self)(f"{place}{'' if what[0] in '.[' else ' '}{what}")


def check_jobs(snapshot: Snapshot) -> None:
    """Raises MisfitError for the first job, hold or block that cannot be meant."""
    counts = Counter(job.id for job in (*snapshot.pending, *snapshot.running))
    for name in ("pending", "running"):
        for place, job in _each(name, getattr(snapshot, name)):
            with _inside(place):
                if counts[job.id] > 1:
                    raise MisfitError(f".id must be of one job alone, not {job.id} again")
                _check_job(snapshot, job)
    pending = {job.id: job for job in snapshot.pending}
    for place, held in _each("holds", snapshot.holds):
        with _inside(place):
            groups = pending[held.job].groups if held.job in pending else None
            _check_members(snapshot, "members", held.members, groups)
    for place, block in _each("blocks", snapshot.blocks):
        with _inside(place):
            _check_indexes("amounts", [node for node, _ in block.amounts], snapshot.node_ids)
            if block.tenant is not None:
                _check_indexes("tenant", [block.tenant], snapshot.tenant_ids)


def _each(name: str, rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f".{name}[{index}]", row) for index, row in enumerate(rows))


@contextmanager
def _inside(place: str) -> Iterator[None]:
    try:
        yield
    except MisfitError as misfit:
        raise misfit.inside(place) from None


def _check_job(snapshot: Snapshot, job: JobSpec) -> None:
    _check_indexes("tenant", [job.tenant], snapshot.tenant_ids)
    _check_indexes("flavors", job.flavors, snapshot.flavors)
    _check_amounts(job, (*_LENGTHS, "gpu_memory_mib", "min_total"))
    if not job.groups:
        raise MisfitError(".groups must be one at least")
    for place, group in _each("groups", job.groups):
        with _inside(place):
            _check_group(group)
    if isinstance(job, RunningJob):
        _check_members(snapshot, "members", job.members, job.groups)
        _check_members(snapshot, "stopping_members", job.stopping_members, job.groups)


def _check_group(group: Group) -> None:
    if not 1 <= group.min_member <= group.max_member:
        raise MisfitError(".min_member must be from 1 to max_member")
    request: Request = group.request
    with _inside(".request"):
        _check_amounts(request, _AMOUNTS)
        if request.kind in _COUNTED and not request.count:
            raise MisfitError(f".count must be 1 or more of kind {request.kind}")
        if request.kind == Access.FRACTION and not request.gpu_milli:
            raise MisfitError(f".gpu_milli must be 1 or more of kind {request.kind}")
        if any(amount < 0 for _, amount in request.extras):
            raise MisfitError(".extras must be 0 or more")


def _check_amounts(thing: JobSpec | Request, names: Iterable[str]) -> None:
    for name in names:
        amount = getattr(thing, name)
        if amount is not None and amount < 0:
            raise MisfitError(f".{name} must be 0 or more, not {amount}")


def _check_members(
    snapshot: Snapshot,
    name: str,
    members: Iterable[PlacedMember],
    groups: Sequence[Group] | None,
) -> None:
    """groups: of the job that they belong to, None if it is not there."""
    for place, member in _each(name, members):
        with _inside(place):
            if groups is not None:
                _check_indexes("group", [member.group], groups)
            _check_indexes("node", [member.node], snapshot.node_ids)
            _check_indexes("gpus", member.gpus, snapshot.gpu_ids)
            _check_indexes("instances", member.instances, snapshot.mig_gpu)
            _check_indexes("slots", member.slots, snapshot.slot_gpu)


def _check_indexes(name: str, indexes: Iterable[int], rows: Any) -> None:
    for index in indexes:
        if not 0 <= index < len(rows):
            raise MisfitError(f".{name} must be an index below {len(rows)}, not {index}")
