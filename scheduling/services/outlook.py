"""What is known of the waiting jobs' time to come, looked at between cycles.

A forecast runs the cycle forward many times, so it is no part of a cycle and no part of a page: a
task makes it when a cycle is done, for as much of the queue as its budget allows, and keeps the
answers with the jobs. It locks nothing that a cycle or a person waits for.
"""

import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

from django.core.cache import cache
from django.db import transaction
from django.db.models import F, Max, OuterRef, Q, Subquery

from portal.core.db import consistent_read
from portal.core.locks import LockSpace, advisory_lock
from scheduling import snapshots
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.plan import Plan, Reason
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job, Placement, QueueOrder, StartEstimate, Unknown
from scheduling.services.policies import policy_in_force
from scheduling.simulation.forecast import (
    WHOLE,
    Effort,
    Forecast,
    Past,
    forecast,
    odds,
    without_stops,
)
from scheduling.snapshots.caps import OWN_CAP
from scheduling.states import FINAL, JobState
from topology.models import Cluster

BUDGET_SECONDS = 3.0  # of one forecast
SHARE = 10  # looking ahead takes at most this part of the time: one in ten
FEWEST_CYCLES, MOST_CYCLES = 5, 60
PAST_JOBS = 1000  # that ended last: what is known of how long jobs run
FEWEST = 20  # so many ended jobs say how long the next one runs
RECORD_SIZE = 100  # estimates that turned out last
MINUTE = 60

# Reasons that more room would not end; where one of them stands, time alone does not help.
KEPT_BACK = frozenset(
    {
        OWN_CAP,
        Reason.ON_HOLD,
        Reason.DEPENDENCY_FAILED,
        Reason.WAITING_FOR_DEPENDENCY,
        Reason.FOREIGN_GATE,
        Reason.NO_FLAVOR,
        Reason.MEMORY_TOO_SMALL,
        Reason.NEVER_FITS,
        Reason.OVER_CEILING,
        Reason.BUDGET_EXHAUSTED,
        Reason.UNHEALTHY,
        Reason.LAYOUT_NEEDED,
    }
)


def note_order(plan: Plan, *, cluster: Cluster, at: datetime) -> None:
    """Keep the order in which a cycle decided the jobs that still wait. at: cluster clock."""
    order = [hold.job for hold in plan.holds]
    QueueOrder.objects.bulk_create(
        [QueueOrder(cluster=cluster, jobs=order, at=at)],
        update_conflicts=True,
        unique_fields=["cluster"],
        update_fields=["jobs", "at"],
    )


def look_ahead(cluster: Cluster, *, at: datetime) -> int:
    """Estimate when the waiting jobs of `cluster` start; how many estimates there are now.

    0 at once while another worker does it, or if the last time is too short ago for what it cost.
    at: cluster clock.
    """
    with advisory_lock(LockSpace.OUTLOOK, cluster.pk) as held:
        if not held or cache.get(_resting(cluster)):
            return 0
        began = time.perf_counter()
        settle(cluster, at=at)
        with consistent_read():
            policy = policy_in_force(cluster)
            snapshot = _in_order(snapshots.take(cluster, at=at, policy=policy), cluster)
            past = _past(cluster, snapshot)
        found = _forecast(snapshot, policy, past)
        told = _write(snapshot, found, past, percent=_percent(cluster), at=at)
        cache.set(_resting(cluster), 1, timeout=SHARE * (time.perf_counter() - began))
    return told


def _resting(cluster: Cluster) -> str:
    return f"outlook:{cluster.pk}"


def _in_order(snapshot: Snapshot, cluster: Cluster) -> Snapshot:
    """The waiting jobs in the order of the last cycle; those it did not see come last."""
    order = QueueOrder.objects.filter(cluster=cluster).values_list("jobs", flat=True).first() or ()
    place = {job: index for index, job in enumerate(order)}
    last = len(place)
    pending = sorted(snapshot.pending, key=lambda job: place.get(job.id, last))
    return replace(snapshot, pending=tuple(pending))


def _past(cluster: Cluster, snapshot: Snapshot) -> Past:
    """How long the jobs ran that ended last here, and held their places after. One query."""
    freed = Max("placements__released_at", filter=Q(placements__attempt=F("attempt")))
    ended = Job.objects.filter(
        cluster=cluster, state__in=FINAL, started_at__isnull=False, ended_at__isnull=False
    ).order_by("-pk")[:PAST_JOBS]
    tenant_at = {tenant: index for index, tenant in enumerate(snapshot.tenant_ids)}
    used: dict[int, list[int]] = defaultdict(list)
    endless: list[int] = []
    everybody: list[int] = []
    lags: list[int] = []
    for tenant, limit, started, end, free in ended.annotate(free=freed).values_list(
        "tenant_id", "walltime_seconds", "started_at", "ended_at", "free"
    ):
        ran = int((end - started).total_seconds())
        everybody.append(ran)
        if free is not None:
            lags.append(max(0, int((free - end).total_seconds())))
        if limit:
            used[tenant_at[tenant]].append(min(WHOLE, ran * WHOLE // limit))
        else:
            endless.append(ran)
    seconds = endless if len(endless) >= FEWEST else everybody
    anybody = sorted(part for parts in used.values() for part in parts)
    return Past(
        used={own: sorted(parts) for own, parts in used.items() if len(parts) >= FEWEST},
        anybody=anybody if len(anybody) >= FEWEST else (),
        seconds=sorted(seconds) if len(seconds) >= FEWEST else (),
        lags=lags or (0,),
    )


def _forecast(snapshot: Snapshot, policy: Policy, past: Past) -> Forecast:
    """As many cycles of each run as the budget allows, by what one costs now."""
    if not snapshot.pending or not (past.anybody or past.seconds):
        return Forecast(spans={}, earliest={}, is_cut=False)
    usual = Effort()
    few = replace(snapshot, pending=snapshot.pending[: usual.depth])
    began = time.perf_counter()
    plan_cycle(few, without_stops(policy))
    cost = time.perf_counter() - began
    cycles = int(BUDGET_SECONDS / (usual.runs * cost))
    cycles = min(MOST_CYCLES, max(FEWEST_CYCLES, cycles))
    return forecast(few, policy, past, replace(usual, cycles=cycles))


def _percent(cluster: Cluster) -> int:
    """How likely a range holds: as many as did, once there is a record; before, by the formula.

    The formula knows nothing of jobs that are submitted later, nor of the time that starts take.
    """
    settled = StartEstimate.objects.filter(job__cluster=cluster, held__isnull=False)
    held = list(settled.order_by("-settled_at").values_list("held", flat=True)[:RECORD_SIZE])
    return 100 * sum(held) // len(held) if len(held) >= FEWEST else odds(Effort().runs)


@transaction.atomic
def _write(snapshot: Snapshot, found: Forecast, past: Past, *, percent: int, at: datetime) -> int:
    """One row for each of the jobs looked at; the jobs behind them are told that they are not."""
    deep = Effort().depth
    looked_at = [job.id for job in snapshot.pending[:deep]]
    waiting = Job.objects.waiting().filter(pk__in=looked_at).only("pk", "attempt", "reason")
    rows = [_estimate(job, found, past, at=at) for job in waiting]
    for row in rows:
        row.percent = 0 if row.latest is None else percent
    StartEstimate.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["job", "attempt"],
        update_fields=["made_at", "earliest", "latest", "percent", "unknown"],
    )
    behind = [job.id for job in snapshot.pending[deep:]]
    StartEstimate.objects.filter(job__in=behind, held__isnull=True).update(
        made_at=at, earliest=None, latest=None, percent=0, unknown=Unknown.TOO_FAR
    )
    of_these = StartEstimate.objects.filter(job__in=looked_at, made_at=at, held__isnull=True)
    of_these.filter(first_at__isnull=True, latest__isnull=False).update(
        first_at=F("made_at"), first_earliest=F("earliest"), first_latest=F("latest")
    )
    # Kept back by somebody since it was told: what was told then was about another course.
    of_these.filter(unknown=Unknown.KEPT_BACK).update(
        first_at=None, first_earliest=None, first_latest=None
    )
    return len(rows)


def _estimate(job: Job, found: Forecast, past: Past, *, at: datetime) -> StartEstimate:
    row = StartEstimate(job=job, attempt=job.attempt, made_at=at)
    span = found.spans.get(job.pk)
    if job.reason in KEPT_BACK:
        row.unknown = Unknown.KEPT_BACK
    elif span is not None:
        row.earliest, row.latest = _minute(span.earliest), _minute(span.latest + MINUTE - 1)
    else:
        earliest = found.earliest.get(job.pk)
        row.earliest = None if earliest is None else _minute(earliest)
        row.unknown = _why_unknown(found, past)
    return row


def _why_unknown(found: Forecast, past: Past) -> Unknown:
    if not (past.anybody or past.seconds):
        return Unknown.NO_PAST
    return Unknown.TOO_FAR if found.is_cut else Unknown.NO_END


def _minute(seconds: int) -> datetime:
    """The whole minute before: a range is kept and judged as people read it."""
    return datetime.fromtimestamp(seconds - seconds % MINUTE, UTC)


@transaction.atomic
def settle(cluster: Cluster, *, at: datetime) -> int:
    """See which first estimates held, of the jobs that started or should have; how many.

    A job that waits beyond the end of its range has missed it, whenever it starts.
    """
    there = StartEstimate.objects.filter(
        job__cluster=cluster, held__isnull=True, first_latest__isnull=False
    )
    placed = Placement.objects.filter(job=OuterRef("job"), attempt=OuterRef("attempt") + 1)
    start = Subquery(placed.order_by("bound_at").values("bound_at")[:1])
    started = there.filter(job__attempt__gt=F("attempt")).annotate(start=start)
    held = Q(start__gte=F("first_earliest"), start__lte=F("first_latest"))
    settled = 0
    for outcome, rows in ((True, started.filter(held)), (False, started.exclude(held))):
        for pk, when in rows.filter(start__isnull=False).values_list("pk", "start"):
            settled += there.filter(pk=pk).update(held=outcome, settled_at=when)
    late = there.filter(job__state=JobState.QUEUED, job__attempt=F("attempt"), first_latest__lt=at)
    return settled + late.update(held=False, settled_at=F("first_latest"))
