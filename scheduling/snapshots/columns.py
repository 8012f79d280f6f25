"""What is read of the rows of jobs. The names are those of columns; instants are whole seconds."""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from django.db.models import F, QuerySet

from scheduling.snapshots.times import Seconds


class JobRow(NamedTuple):
    """A job and one of its groups."""

    id: int
    public_id: str
    tenant_id: int
    state: str
    priority: int
    submitted_at: int
    started_at: int | None
    walltime_seconds: int | None
    min_total: int | None
    is_held: bool
    is_preemptible: bool
    is_standby: bool
    gpu_memory_mib: int
    required_level: str
    preferred_level: str
    patience_seconds: int | None
    needs_island: bool
    service_class: str
    not_before: int | None
    start_again_at: int | None
    grace_seconds: int | None
    checkpoint_at: int | None
    preempted_count: int
    protected_until: int | None
    stopping_for_id: int | None
    foreign_gates: list[str]
    groups__id: int
    groups__index: int
    groups__name: str
    groups__min_member: int
    groups__max_member: int
    groups__gpus_per_member: int
    groups__slice_profile: str
    groups__slices_per_member: int
    groups__shares_per_member: int
    groups__gpu_milli: int
    groups__gpu_mib: int
    groups__cpu_milli: int
    groups__memory_mib: int


class PlaceRow(NamedTuple):
    """A placement, one of its members if it has any, and one of that member's devices if any.

    held: the devices that the member has not given back, a filtered relation.
    """

    job_id: int
    id: int
    node_id: int
    group_id: int
    member_count: int
    members__id: int | None
    members__group_id: int
    members__rank: int
    members__phase: str
    members__is_leaving: bool
    held__gpu_id: int | None
    held__instance_id: int | None
    held__share: int | None
    held__milli: int | None


_INSTANTS: Final = frozenset(
    {
        "submitted_at",
        "started_at",
        "not_before",
        "start_again_at",
        "checkpoint_at",
        "protected_until",
    }
)
JOB_COLUMNS: Final = tuple(
    Seconds(name) if name in _INSTANTS else F(name) for name in JobRow._fields
)
PLACE_COLUMNS: Final = tuple(F(name) for name in PlaceRow._fields)


def job_rows(jobs: QuerySet[Any]) -> Mapping[int, list[JobRow]]:
    """By job, in the order of its groups. One query."""
    rows = map(JobRow._make, jobs.order_by("pk", "groups__index").values_list(*JOB_COLUMNS))
    return {job: list(own) for job, own in groupby(rows, key=attrgetter("id"))}


def place_rows(places: QuerySet[Any]) -> Mapping[int, list[PlaceRow]]:
    """By job. One query."""
    rows = map(PlaceRow._make, places.order_by("job_id").values_list(*PLACE_COLUMNS))
    return {job: list(own) for job, own in groupby(rows, key=attrgetter("job_id"))}
