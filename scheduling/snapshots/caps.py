"""How many GPUs each person may hold at once in a tenant, and which of their jobs wait for that.

The limit holds in each cluster by itself, as one cycle plans one cluster. The engine is told that
such a job is on hold; people are told why, in the words of `cap_numbers`.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import F, Q, QuerySet

from scheduling.engine.jobs import Dependency, ParentState
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job, most_devices
from scheduling.states import HOLDING, JobState

OWN_CAP: Final = "own_cap"
"""Why a job waits, beside the engine's reasons: its owner may hold no more GPUs at once."""


class OwnJob(NamedTuple):
    """A job that waits or holds GPUs, of somebody who may hold `most` at once.

    devices: GPUs, slices and shares that it may come to hold, grown as far as it may grow.
    is_late: it may not start yet, by its owner's word or after starts that failed.
    """

    job: int
    owner: int
    tenant: int
    state: str
    is_held: bool
    most: int
    devices: int
    is_late: bool = False

    @property
    def person(self) -> tuple[int, int]:
        return self.owner, self.tenant


def read_own(jobs: QuerySet[Any], at: datetime | None = None) -> list[OwnJob]:
    """Those of `jobs` whose owner has a limit, in queue order. One query. at: cluster clock."""
    capped = jobs.filter(
        state__in=[JobState.QUEUED, *sorted(HOLDING)],
        tenant__memberships__user=F("owner"),
        tenant__memberships__gpus_at_once__isnull=False,
    )
    most = F("tenant__memberships__gpus_at_once")
    late = Q(not_before__gt=at) | Q(start_again_at__gt=at) | ~Q(foreign_gates=[])
    rows = capped.annotate(
        most=most, devices=most_devices(), is_late=late if at else Q(pk__isnull=True)
    )
    return [
        OwnJob(*row)
        for row in rows.in_queue_order().values_list(
            "pk", "owner_id", "tenant_id", "state", "is_held", "most", "devices", "is_late"
        )
    ]


def over_caps(
    own: Sequence[OwnJob],
    after: Mapping[int, Iterable[Dependency]],
    turns: Container[int],
) -> set[int]:
    """Waiting jobs that would take their owner above what they may hold at once.

    A job that something else keeps from starting in this cycle takes nobody's turn, and goes on
    saying what that is. after: what jobs wait for. turns: tasks that their array keeps back.
    """
    left: dict[tuple[int, int], int] = {}
    for each in own:
        left.setdefault(each.person, each.most)
        if each.state in HOLDING:
            left[each.person] -= each.devices
    ready = [each for each in own if _may_start(each, after.get(each.job, ()))]
    over = set()
    for each in sorted(ready, key=lambda each: each.job in turns or each.job in after):
        if each.devices <= max(left[each.person], 0):
            left[each.person] -= each.devices
        else:
            over.add(each.job)
    return over


def _may_start(own: OwnJob, after: Iterable[Dependency]) -> bool:
    """Whether this cycle may start it, as far as its own rows tell.

    A parent that need not succeed may turn out to be lost within the cycle, which lets it go.
    """
    is_bound = any(on.needs_success and on.state != ParentState.SUCCEEDED for on in after)
    return own.state == JobState.QUEUED and not (own.is_held or own.is_late or is_bound)


def cap_numbers(snapshot: Snapshot) -> dict[int, dict[str, int]]:
    """Of each job that `over_caps` kept back in `snapshot`: what its owner may hold and holds.

    `limit` for a job that is larger than that by itself; else `at_most`, what the owner's other
    jobs hold, and what those ask for that may start before it. One query; none where no job is
    on hold.
    """
    kept = {job.id for job in snapshot.pending if job.held}
    if not kept:
        return {}
    own = read_own(
        Job.objects.filter(cluster__in=Job.objects.filter(pk=min(kept)).values("cluster"))
    )
    held: Counter[tuple[int, int]] = Counter()
    ahead: Counter[tuple[int, int]] = Counter()
    for each in own:
        if each.state in HOLDING:
            held[each.person] += each.devices
        elif not each.is_held and each.job not in kept:
            ahead[each.person] += each.devices
    return {
        each.job: _numbers(each, held[each.person], ahead[each.person])
        for each in own
        if each.job in kept and not each.is_held
    }


def _numbers(own: OwnJob, held: int, ahead: int) -> dict[str, int]:
    if own.devices > own.most:
        return {"limit": own.most, "asked": own.devices}
    numbers = {"at_most": own.most, "held": held, "asked": own.devices}
    return numbers | ({"ahead": ahead} if ahead else {})
