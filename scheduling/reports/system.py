"""Whether the machinery works: cycles, the eyes on each cluster, and rows that contradict."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Count, Exists, OuterRef, Q

from portal.core.clock import cluster_time
from portal.core.locks import LockSpace, is_held
from scheduling.models import Cycle, Job, JobEvent, Placement
from scheduling.reports.layouts import drift_in
from scheduling.reports.vitals import Vitals, is_stalled, vitals
from scheduling.states import HOLDING, JobState
from tenants.models import Tenancy
from topology.models import Cluster

NEWEST = 100  # recorded cycles that are looked at
LONG = timedelta(minutes=10)  # of the cluster's clock, to start or to stop
UNCONFIRMED = (JobState.STARTING, JobState.STOPPING)


@dataclass(frozen=True, slots=True)
class CyclePace:
    """Of the newest recorded cycles: how many, their wall seconds, and what they decided."""

    count: int
    median_seconds: float
    slowest_seconds: float
    starts: int
    skipped: int  # decisions that met a changed job


@dataclass(frozen=True, slots=True)
class Drift:
    """Rows of a cluster that contradict others, or that no cluster has confirmed for long.

    without_gpus: jobs that hold GPUs and have no placement. kept: placements of jobs that have
    ended. unconfirmed: starting or stopping for long. tenancies: not as they should be in the
    cluster. nodes: not as a rollout verified them.
    """

    without_gpus: int
    kept: int
    unconfirmed: int
    tenancies: int
    nodes: int

    @property
    def total(self) -> int:
        return self.without_gpus + self.kept + self.unconfirmed + self.tenancies + self.nodes


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """One cluster. is_watched: a watcher is at work on it. pace: None before its first cycle."""

    cluster: Cluster
    vitals: Vitals
    is_stalled: bool
    is_watched: bool
    pace: CyclePace | None
    drift: Drift


def system_health(*, wall: datetime) -> list[ClusterHealth]:
    """Every cluster, by its slug. wall: the wall clock."""
    known = {one.cluster: one for one in vitals(wall=wall)}
    return [
        ClusterHealth(
            cluster=cluster,
            vitals=known[cluster.slug],
            is_stalled=is_stalled(cluster, wall=wall),
            is_watched=is_held(LockSpace.WATCH, cluster.pk),
            pace=_pace(cluster),
            drift=_drift(cluster, wall=wall),
        )
        for cluster in Cluster.objects.order_by("slug")
    ]


def _pace(cluster: Cluster) -> CyclePace | None:
    newest = Cycle.objects.filter(cluster=cluster).order_by("-pk")
    rows = list(newest.values_list("seconds", "starts", "skipped")[:NEWEST])
    if not rows:
        return None
    seconds, starts, skipped = zip(*rows, strict=True)
    return CyclePace(len(rows), median(seconds), max(seconds), sum(starts), sum(skipped))


def _drift(cluster: Cluster, *, wall: datetime) -> Drift:
    active = Placement.objects.active()
    jobs = Job.objects.filter(cluster=cluster)
    long_ago = cluster_time(cluster, wall=wall) - LONG
    moved = JobEvent.objects.filter(job=OuterRef("pk"), at__gte=long_ago)
    counts = jobs.filter(state__in=sorted(HOLDING)).aggregate(
        without_gpus=Count(
            "pk",
            filter=Q(state__in=[JobState.STARTING, JobState.RUNNING])
            & ~Exists(active.filter(job=OuterRef("pk"))),
        ),
        unconfirmed=Count("pk", filter=Q(state__in=UNCONFIRMED) & ~Exists(moved)),
    )
    tenancies = Tenancy.objects.filter(cluster=cluster).exclude(drift=[], refusal="")
    return Drift(
        without_gpus=counts["without_gpus"],
        kept=active.filter(job__cluster=cluster).exclude(job__state__in=sorted(HOLDING)).count(),
        unconfirmed=counts["unconfirmed"],
        tenancies=tenancies.count(),
        nodes=len(drift_in(cluster)),
    )
