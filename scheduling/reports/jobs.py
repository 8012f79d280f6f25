from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count
from django.utils.translation import ngettext

from portal.core.clock import cluster_time
from scheduling.models import Job, JobGroup
from scheduling.querysets import JobQuerySet
from scheduling.states import FINAL, JobState

MILLI_PER_PERCENT, MIB_PER_GIB = 10, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of a list. gpus: of all members at most; shape: "2 × 8" members by devices."""

    job: Job
    gpus: int
    shape: str
    flavors: tuple[str, ...]
    waited_seconds: float
    ran_seconds: float | None

    @property
    def is_waiting(self) -> bool:
        return self.job.state == JobState.QUEUED

    @property
    def is_running(self) -> bool:
        return self.job.state == JobState.RUNNING


def with_rows(jobs: JobQuerySet) -> JobQuerySet:
    """`jobs` with all that `job_rows` reads: two queries more, for any number of them."""
    return jobs.select_related("tenant", "owner", "cluster").prefetch_related(
        "groups", "accepted__flavor"
    )


def job_rows(jobs: Iterable[Job], *, wall: datetime) -> list[JobRow]:
    """Lines for `jobs` as their clusters' clocks stand. wall: the wall clock."""
    return [job_row(job, at=cluster_time(job.cluster, wall=wall)) for job in jobs]


def job_row(job: Job, *, at: datetime) -> JobRow:
    """The line of `job`, whose groups and flavors are read. at: cluster clock."""
    groups = sorted(job.groups.all(), key=lambda group: group.index)
    accepted = sorted(job.accepted.all(), key=lambda choice: choice.rank)
    return JobRow(
        job=job,
        gpus=sum(group.max_member * group.gpus_per_member for group in groups),
        shape=" + ".join(f"{group.max_member} × {devices_text(group)}" for group in groups),
        flavors=tuple(choice.flavor.name for choice in accepted),
        waited_seconds=_seconds(job.submitted_at, job.started_at or job.ended_at or at),
        ran_seconds=_ran(job, at),
    )


def devices_text(group: JobGroup) -> str:
    """What each member has: so many GPUs, `2 × 1g.10gb`, so many shares, or `25% 10 GiB`."""
    if group.slices_per_member:
        return f"{group.slices_per_member} × {group.slice_profile}"
    if group.shares_per_member:
        shares = group.shares_per_member
        return ngettext("%(n)d share", "%(n)d shares", shares) % {"n": shares}
    if group.gpu_milli:
        return f"{group.gpu_milli / MILLI_PER_PERCENT:g}% {group.gpu_mib / MIB_PER_GIB:.3g} GiB"
    return str(group.gpus_per_member)


def count_by_state(jobs: JobQuerySet) -> dict[str, int]:
    """How many of `jobs` are in each state, zeros included. One query."""
    counts = dict.fromkeys(JobState.values, 0)
    rows = jobs.order_by().values("state").annotate(n=Count("pk")).values_list("state", "n")
    return counts | dict(rows)


def _ran(job: Job, at: datetime) -> float | None:
    if job.started_at is None:
        return None
    if job.state in FINAL | {JobState.RUNNING, JobState.STOPPING}:
        return _seconds(job.started_at, job.ended_at or at)
    return None


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
