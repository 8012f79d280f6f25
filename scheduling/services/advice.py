"""What would help one waiting job, looked for when somebody looks at it, and kept for a cycle."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.db.models import QuerySet, Subquery

from portal.core.db import consistent_read
from portal.core.queueing import send_again, send_on_commit
from scheduling import snapshots
from scheduling.engine.advice import Aid, Suggestion, suggestions
from scheduling.engine.explain import ChangeKind
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Advice, Cycle, Job
from scheduling.services.policies import policy_in_force
from scheduling.states import JobState
from topology.models import Cluster

BUDGET_SECONDS = 5.0  # nothing more is tried after so long
WATCHED_SECONDS = 30  # since somebody looked at the job
LAST_CHECKED = 50  # jobs that are asked for after a cycle
MOST_WATCHED = 5  # of them, those that are looked into
GOOD_FOR = timedelta(seconds=30)  # wall: a change that no cycle wrote down may have come since
SHOWN_FOR = timedelta(minutes=2)  # wall: to people, while it is looked for again


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a job as it asks now. is_true: nothing is known to have changed since."""

    advice: Advice
    is_true: bool


def fresh_advice(job: Job, *, wall: datetime) -> Advice | None:
    """What would help `job` as things stand, None while nobody knows: then it is looked for.

    What was found counts until a cycle decides something new, and half a minute at most. One
    query. wall: the wall clock.
    """
    found = last_advice(job, wall=wall)
    return found.advice if found and found.is_true else None


def last_advice(job: Job, *, wall: datetime) -> Found | None:
    """As `fresh_advice`; while that is looked for, what was true two minutes ago at most."""
    if job.state != JobState.QUEUED or not job.reason:
        return None
    cache.set(_watched(job.pk), 1, timeout=WATCHED_SECONDS)
    newest = Subquery(_cycles(job.cluster)[:1])
    advice = Advice.objects.filter(job=job).annotate(newest=newest).first()
    if advice is None or advice.version != job.version:
        send_again("scheduling.advise", job_id=job.pk)
        return None
    age = wall - advice.checked_wall_at
    is_true = advice.cycle == (advice.newest or 0) and age <= GOOD_FOR
    if not is_true or age > GOOD_FOR / 2:
        send_again("scheduling.advise", job_id=job.pk)
    return Found(advice, is_true) if age <= SHOWN_FOR else None


def refresh_watched(cluster: Cluster) -> int:
    """Have the jobs that somebody looks at looked into again, after a cycle; how many."""
    known = Advice.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED)
    keys = list(known.order_by("-checked_wall_at").values_list("job", flat=True)[:LAST_CHECKED])
    watched = cache.get_many([_watched(key) for key in keys])
    found = [key for key in keys if _watched(key) in watched][:MOST_WATCHED]
    for key in found:
        send_on_commit("scheduling.advise", job_id=key)
    return len(found)


def _watched(job_id: int) -> str:
    return f"watched:{job_id}"


def newest_cycle(cluster: Cluster) -> int:
    """The key of the newest recorded cycle of `cluster`, 0 before the first."""
    return _cycles(cluster).first() or 0


def _cycles(cluster: Cluster) -> QuerySet[Cycle, int]:
    """Keys of the recorded cycles of `cluster`, the newest first."""
    return Cycle.objects.filter(cluster=cluster).order_by("-pk").values_list("pk", flat=True)


def advise(job: Job, *, at: datetime, wall: datetime) -> None:
    """Find out what would help `job` and keep it. at: cluster clock; wall: the wall clock."""
    began = time.perf_counter()
    with consistent_read():
        cycle = newest_cycle(job.cluster)
        policy = policy_in_force(job.cluster)
        snapshot = snapshots.take(job.cluster, at=at, policy=policy)
        job.refresh_from_db(fields=["state", "version"])
    if job.state != JobState.QUEUED:
        return
    found, is_complete = search(snapshot, policy, job.pk, until=began + BUDGET_SECONDS)
    Advice.objects.update_or_create(
        job=job,
        defaults={
            "cycle": cycle,
            "version": job.version,
            "checked_at": at,
            "checked_wall_at": wall,
            "found": found,
            "is_complete": is_complete,
        },
    )


def search(
    snapshot: Snapshot, policy: Policy, job_id: int, *, until: float
) -> tuple[list[dict[str, Any]], bool]:
    """What would help, in plain values; and whether the search came to its end.

    until: of `time.perf_counter`; nothing more is tried after it.
    """
    found = []
    for suggestion in suggestions(snapshot, policy, job_id):
        found.append(_plain(suggestion, snapshot))
        if time.perf_counter() > until:
            return found, False
    return found, True


def _plain(suggestion: Suggestion, snapshot: Snapshot) -> dict[str, Any]:
    """A suggestion by names instead of indexes: flavors by name, jobs by public id."""
    value: int | str = suggestion.value
    if suggestion.kind == ChangeKind.FLAVOR:
        value = snapshot.flavors[int(value)]
    if suggestion.kind == Aid.END:
        value = next(job.name for job in snapshot.running if job.id == value)
    plain = {"kind": suggestion.kind, "value": value, "effect": suggestion.effect}
    if suggestion.flavor is not None:
        plain["flavor"] = snapshot.flavors[suggestion.flavor]
    return plain
