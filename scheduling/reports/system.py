"""Whether the machinery works: cycles, the eyes on each cluster, and rows that contradict."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Case, Count, DateTimeField, Exists, OuterRef, Q, Value, When

from portal.core.clock import cluster_time
from portal.core.locks import LockSpace, held_of
from scheduling.models import Cycle, Job, JobEvent, Placement
from scheduling.reports.layouts import drifted_by_cluster
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
    unconfirmed: int
    kept: int
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
    """Every cluster, by its slug, in as many queries for one as for many. wall: the wall clock."""
    clusters = list(Cluster.objects.order_by("slug"))
    known = {one.cluster: one for one in vitals(wall=wall)}
    watched = held_of(LockSpace.WATCH, [cluster.pk for cluster in clusters])
    paces, drifts = _paces(clusters), _drifts(clusters, wall=wall)
    return [
        ClusterHealth(
            cluster=cluster,
            vitals=known[cluster.slug],
            is_stalled=is_stalled(cluster, wall=wall),
            is_watched=cluster.pk in watched,
            pace=paces.get(cluster.pk),
            drift=drifts[cluster.pk],
        )
        for cluster in clusters
    ]


def _paces(clusters: Sequence[Cluster]) -> dict[int, CyclePace]:
    """By the key of the cluster; those without a cycle are left out. One query."""
    newest = [
        Cycle.objects.filter(cluster=cluster)
        .order_by("-pk")
        .values_list("cluster_id", "seconds", "starts", "skipped")[:NEWEST]
        for cluster in clusters
    ]
    rows = defaultdict(list)
    for cluster, *numbers in newest[0].union(*newest[1:], all=True) if newest else ():
        rows[cluster].append(numbers)
    return {cluster: _pace(own) for cluster, own in rows.items()}


def _pace(rows: Sequence[Sequence[Any]]) -> CyclePace:
    seconds, starts, skipped = zip(*rows, strict=True)
    return CyclePace(len(rows), median(seconds), max(seconds), sum(starts), sum(skipped))


def _drifts(clusters: Sequence[Cluster], *, wall: datetime) -> dict[int, Drift]:
    """By the key of the cluster. Four queries."""
    active, is_holding = Placement.objects.active(), sorted(HOLDING)
    kept = active.exclude(job__state__in=is_holding).order_by().values_list("job__cluster")
    kept_of = dict(kept.annotate(count=Count("pk")))
    tenancies = Tenancy.objects.exclude(drift=[], refusal="").order_by().values_list("cluster")
    tenancies_of = dict(tenancies.annotate(count=Count("pk")))
    jobs_of, nodes_of = _doubtful_jobs(clusters, wall=wall), drifted_by_cluster()
    return {
        cluster.pk: Drift(
            *jobs_of.get(cluster.pk, (0, 0)),
            kept=kept_of.get(cluster.pk, 0),
            tenancies=tenancies_of.get(cluster.pk, 0),
            nodes=nodes_of[cluster.pk],
        )
        for cluster in clusters
    }


def _doubtful_jobs(clusters: Sequence[Cluster], *, wall: datetime) -> dict[int, tuple[int, int]]:
    """Jobs without GPUs and unconfirmed ones, by the key of the cluster. One query."""
    long_ago = Case(
        *(
            When(cluster=own.pk, then=Value(cluster_time(own, wall=wall) - LONG))
            for own in clusters
        ),
        output_field=DateTimeField(),
    )
    placed = Placement.objects.active().filter(job=OuterRef("pk"))
    moved = JobEvent.objects.filter(job=OuterRef("pk"), at__gte=OuterRef("long_ago"))
    holding = Job.objects.filter(state__in=sorted(HOLDING)).annotate(long_ago=long_ago)
    counts = (
        holding.order_by()
        .values("cluster_id")
        .annotate(
            without_gpus=Count(
                "pk", filter=Q(state__in=[JobState.STARTING, JobState.RUNNING]) & ~Exists(placed)
            ),
            unconfirmed=Count("pk", filter=Q(state__in=UNCONFIRMED) & ~Exists(moved)),
        )
    )
    return {own["cluster_id"]: (own["without_gpus"], own["unconfirmed"]) for own in counts}
