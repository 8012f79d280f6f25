"""One rollout, wave by wave: the rows of its page."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.models import Job, Placement
from topology.models import NodeChange, Rollout, RolloutEvent
from topology.states import ACTIVE, Step

MOST_EVENTS = 40


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A node in a rollout. jobs: that are still on it while it is drained."""

    change: NodeChange
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class RolloutDetail:
    """counts: nodes by step. waves: number and its rows."""

    rollout: Rollout
    waves: tuple[tuple[int, tuple[ChangeRow, ...]], ...]
    counts: Mapping[str, int]
    events: tuple[RolloutEvent, ...]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def verified(self) -> int:
        return self.counts.get(Step.VERIFIED, 0)

    @property
    def reverted(self) -> int:
        return self.counts.get(Step.REVERTED, 0)

    @property
    def failed(self) -> tuple[NodeChange, ...]:
        rows = [row.change for _number, wave in self.waves for row in wave]
        return tuple(change for change in rows if change.step == Step.FAILED)

    @property
    def is_moving(self) -> bool:
        return any(step in ACTIVE for step in self.counts)


def rollout_detail(rollout: Rollout) -> RolloutDetail:
    """Everything that its page shows. Three queries."""
    changes = list(rollout.changes.select_related("node").order_by("wave", "node__name"))
    draining = [own.node_id for own in changes if own.step == Step.DRAIN]
    there: dict[int, list[Job]] = {}
    active = Placement.objects.active().filter(node__in=draining)
    for placement in active.select_related("job__tenant", "job__owner").order_by("job_id"):
        if placement.job not in there.setdefault(placement.node_id, []):
            there[placement.node_id].append(placement.job)
    waves: dict[int, list[ChangeRow]] = {}
    for change in changes:
        row = ChangeRow(change, tuple(there.get(change.node_id, ())))
        waves.setdefault(change.wave, []).append(row)
    events = rollout.events.select_related("change__node", "actor").order_by("-pk")
    return RolloutDetail(
        rollout,
        tuple((number, tuple(rows)) for number, rows in waves.items()),
        Counter(change.step for change in changes),
        tuple(events[:MOST_EVENTS]),
    )
