"""What an operator's monitoring asks: how much waits and runs, and whether cycles still come."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from portal.core.clock import cluster_time
from scheduling.models import Job
from scheduling.states import FINAL, JobState
from topology.models import Cluster

STALLED_AFTER = 60.0  # wall seconds without a cycle; six beats
UNENDED = tuple(state for state in JobState if state not in FINAL)


@dataclass(frozen=True, slots=True)
class Vitals:
    """One cluster. jobs: by state, those that have not ended. Ages in wall seconds, None: never."""

    cluster: str
    jobs: dict[JobState, int]
    cycle_age_seconds: float | None
    seen_age_seconds: float | None


def vitals(*, wall: datetime) -> list[Vitals]:
    """Every cluster, by name. Two queries. wall: the wall clock."""
    rows = Job.objects.filter(state__in=UNENDED).order_by().values("cluster_id", "state")
    counts = {(row["cluster_id"], row["state"]): row["n"] for row in rows.annotate(n=Count("pk"))}
    return [
        Vitals(
            cluster=cluster.slug,
            jobs={state: counts.get((cluster.pk, state), 0) for state in UNENDED},
            cycle_age_seconds=_cycle_age(cluster, wall),
            seen_age_seconds=None if cluster.seen_at is None else _age(cluster.seen_at, wall),
        )
        for cluster in Cluster.objects.order_by("slug")
    ]


def is_stalled(cluster: Cluster, *, wall: datetime) -> bool:
    """Whether cycles have come to `cluster` and come no more. wall: the wall clock."""
    age = _cycle_age(cluster, wall)
    return age is not None and age > STALLED_AFTER


def _cycle_age(cluster: Cluster, wall: datetime) -> float | None:
    """Cycles are dated by the cluster's clock; its seconds may be shorter than the wall's."""
    if cluster.planned_at is None:
        return None
    shown = _age(cluster.planned_at, cluster_time(cluster, wall=wall))
    return shown / cluster.clock_speed if cluster.clock_speed else shown


def _age(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
