"""The demo: which trace its tenants live by, round after round, a day each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from scheduling.services.feeding import (
    EVERY_TENANT,
    Feed,
    known_origin,
    last_round,
    not_fed,
    people_of,
)
from scheduling.simulation.streams import ROUND_LIMITS
from scheduling.simulation.trace import TraceFormat, TraceJob, read_trace
from tenants.models import Tenant
from topology.models import Cluster

CLUSTER = "demo"
NAME = "demo"
TRACE = Path(__file__).resolve().parents[2] / "tests" / "data" / "philly_slice.csv"
TENANTS = {"ee9e8c": "nlp", "11cb48": "vision", "6214e9": "speech", "103959": "robotics"}
"""Virtual clusters of the trace, and the tenants that stand for them."""

SWEEPS = "sweeps"
SWEEPER = "speech"  # the tenant that borrows for them
SWEEP_EVERY, SWEEP_SECONDS, SWEEP_GPUS = 2 * 3600, 5 * 3600, 16
SWEEP_SAVES_EVERY = 1800
"""Jobs on borrowed GPUs, which make room for whoever lent them and go on where they last saved."""

ROUND = timedelta(days=1)
LEAD = timedelta(minutes=1)  # until the first job
MISSED = timedelta(hours=1)  # the demo was off for longer: the round begins now, not then


@dataclass(frozen=True, slots=True)
class Round:
    """One replay of the trace, and the jobs of it; `sweeps` are fed beside them."""

    number: int
    feed: Feed
    jobs: Sequence[TraceJob]
    sweeps: Feed
    sweep_jobs: Sequence[TraceJob]


def demo_cluster() -> Cluster | None:
    """The demo's cluster once its clock and its nodes are known, and its tenants are there."""
    cluster = Cluster.objects.filter(slug=CLUSTER, clock_at__isnull=False).first()
    if cluster is None or not cluster.nodes.present().exists():
        return None
    known = Tenant.objects.filter(slug__in=TENANTS.values()).count()
    return cluster if known == len(TENANTS) else None


def next_round(cluster: Cluster, *, at: datetime) -> Round:
    """The round to go on with: the one that was left unfinished, or the one after it.

    at: cluster clock. A round begins a day after the one before, so that each hour of the trace
    keeps its place in the day; the first one, or one whose time has passed, begins at once.
    """
    jobs = read_trace(TRACE, TraceFormat.PHILLY).jobs
    number = last_round(cluster, NAME)
    if number == 0:
        return _round(cluster, jobs, 1, at + LEAD)
    origin = known_origin(cluster, _name(number), jobs) or at
    unfinished = _round(cluster, jobs, number, origin)
    if any(True for _ in not_fed(unfinished.feed, jobs)):
        return unfinished
    following = origin + ROUND
    return _round(cluster, jobs, number + 1, at + LEAD if at - following > MISSED else following)


def _round(cluster: Cluster, jobs: Sequence[TraceJob], number: int, origin: datetime) -> Round:
    by_slug = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=TENANTS.values())}
    feed = Feed(
        name=_name(number),
        cluster=cluster,
        origin=origin,
        tenants={name: by_slug[slug] for name, slug in TENANTS.items()},
        people=people_of(by_slug.values()),
        is_fixed=True,
        limits=ROUND_LIMITS,
    )
    sweeper = by_slug[SWEEPER]
    sweeps = Feed(
        name=f"{SWEEPS}-{number}",
        cluster=cluster,
        origin=origin,
        tenants={EVERY_TENANT: sweeper},
        people=people_of([sweeper]),
        saves_every=SWEEP_SAVES_EVERY,
        limits=ROUND_LIMITS,
    )
    return Round(number, feed, jobs, sweeps, sweep_jobs())


def sweep_jobs() -> tuple[TraceJob, ...]:
    """A round's sweeps: wide and long, one every other hour."""
    return tuple(
        TraceJob(
            key=str(row),
            row=row,
            submit_seconds=row * SWEEP_EVERY,
            duration_seconds=SWEEP_SECONDS,
            gpus=SWEEP_GPUS,
        )
        for row in range(int(ROUND.total_seconds()) // SWEEP_EVERY)
    )


def _name(number: int) -> str:
    return f"{NAME}-{number}"
