"""What waiting jobs ask for, told apart once: jobs that ask for the same share one claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scheduling.engine.charge import least_parts
from scheduling.engine.fleet import Fleet
from scheduling.engine.gang import wish_of
from scheduling.engine.jobs import Access, PendingJob
from scheduling.engine.locality import Wish


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What equal jobs of one tenant ask for. They share one claim, and quota treats them alike.

    kind: a number of those that fit into the same room, of whichever tenant. flavors: those it
    accepts, best first. parts: the fewest parts of quota that it starts with; is_exact: the same
    wherever it starts. wish: how close its members are to be.
    """

    kind: int
    tenant: int
    flavors: tuple[int, ...]
    parts: int
    preemptible: bool
    is_exact: bool
    wish: Wish


class Claims:
    """The claims of all jobs met so far on one set of nodes and devices."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._claims: dict[tuple[Any, ...], Claim] = {}
        self._met: dict[int, tuple[PendingJob, Claim]] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def of(self, pending: Iterable[PendingJob], at: int) -> dict[int, Claim]:
        """The claim of each job, by its id. at: now; wishes relax with time."""
        before, self._met = self._met, {}
        claims = {}
        for job in pending:
            known = before.get(job.id)
            if known is None or _may_have_changed(known[0], job):
                known = job, self._claim(job, at)
            self._met[job.id] = known
            claims[job.id] = known[1]
        return claims

    def _claim(self, job: PendingJob, at: int) -> Claim:
        wish = wish_of(job, at)
        demand = (
            *(job.groups, job.flavors, job.gpu_memory_mib, job.min_total),
            *(job.island, job.service_class, wish),
        )
        key = demand, job.tenant, job.preemptible, job.standby
        claim = self._claims.get(key)
        if claim is None:
            flavors = range(len(self._fleet.snapshot.flavors))
            claim = self._claims[key] = Claim(
                kind=self._kinds.setdefault(demand, len(self._kinds)),
                tenant=job.tenant,
                flavors=job.flavors or tuple(flavors),
                parts=least_parts(self._fleet, job),
                preemptible=job.preemptible,
                is_exact=len(job.groups) == 1 and job.groups[0].request.kind == Access.WHOLE,
                wish=wish,
            )
        return claim


def _may_have_changed(before: PendingJob, job: PendingJob) -> bool:
    if before is not job and before != job:
        return True
    return job.required is not None and job.patience_seconds is not None
