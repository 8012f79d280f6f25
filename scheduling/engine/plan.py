"""What a cycle decides: one verdict for every waiting job, and what else must happen for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from scheduling.engine.jobs import PlacedMember

Number = int | str | tuple[int, ...]
"""The value of a reason's key: a count, a word, or the ids of jobs."""


class Reason(StrEnum):
    """Why a job did not start. A held job carries the first of these that is true of it."""

    ON_HOLD = "on_hold"
    NOT_BEFORE = "not_before"
    DEPENDENCY_FAILED = "dependency_failed"
    WAITING_FOR_DEPENDENCY = "waiting_for_dependency"
    FOREIGN_GATE = "foreign_gate"
    NO_FLAVOR = "no_flavor"
    MEMORY_TOO_SMALL = "memory_too_small"
    NEVER_FITS = "never_fits"
    OVER_CEILING = "over_ceiling"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MAKING_ROOM = "making_room"
    QUOTA_EXHAUSTED = "quota_exhausted"
    MAINTENANCE = "maintenance"
    UNHEALTHY = "unhealthy"
    LAYOUT_NEEDED = "layout_needed"
    NO_WALLTIME = "no_walltime"
    STRICT_ORDER = "strict_order"
    WOULD_DELAY = "would_delay"
    FRAGMENTED = "fragmented"
    NO_ROOM = "no_room"


Numbers = tuple[tuple[str, Number], ...]
Why = tuple[Reason, Numbers]
"""A reason and its keys, in their order."""


class Unit(StrEnum):
    """How the number of a reason is to be read."""

    COUNT = "count"
    INSTANT = "instant"
    SECONDS = "seconds"
    GPU_SECONDS = "gpu_seconds"
    PARTS = "parts"
    MIB = "mib"
    JOB = "job"
    JOBS = "jobs"
    WORD = "word"


_UNITS: Final = {
    (Reason.NOT_BEFORE, "at"): Unit.INSTANT,
    (Reason.MEMORY_TOO_SMALL, "need"): Unit.MIB,
    (Reason.MEMORY_TOO_SMALL, "largest"): Unit.MIB,
    (Reason.OVER_CEILING, "limit"): Unit.PARTS,
    (Reason.OVER_CEILING, "asked"): Unit.PARTS,
    (Reason.BUDGET_EXHAUSTED, "left"): Unit.GPU_SECONDS,
    (Reason.BUDGET_EXHAUSTED, "asked"): Unit.GPU_SECONDS,
    (Reason.MAKING_ROOM, "until"): Unit.INSTANT,
    (Reason.MAKING_ROOM, "victims"): Unit.JOBS,
    (Reason.QUOTA_EXHAUSTED, "at"): Unit.WORD,
    (Reason.QUOTA_EXHAUSTED, "free"): Unit.PARTS,
    (Reason.QUOTA_EXHAUSTED, "asked"): Unit.PARTS,
    (Reason.MAINTENANCE, "from"): Unit.INSTANT,
    (Reason.NO_WALLTIME, "at_most"): Unit.SECONDS,
    (Reason.WOULD_DELAY, "at"): Unit.INSTANT,
}
_UNITS_BY_KEY: Final = {
    "job": Unit.JOB,
    "waits_for": Unit.JOB,
    "gate": Unit.WORD,
    "level": Unit.WORD,
    "profile": Unit.WORD,
}


def unit_of(reason: Reason, key: str, value: Number) -> Unit:
    """The unit of one of a reason's numbers; a word where the value is one, a block's name say."""
    if isinstance(value, str):
        return Unit.WORD
    return _UNITS.get((reason, key)) or _UNITS_BY_KEY.get(key, Unit.COUNT)


@dataclass(frozen=True, slots=True)
class Start:
    """Start `job` now on these members, by group and then rank.

    borrowed: on quota above its tenant's nominal. backfill: ahead of an earlier job's reservation.
    quality: the topology quality from 0 to 100, None below two GPUs.
    """

    job: int
    members: tuple[PlacedMember, ...]
    borrowed: bool = False
    backfill: bool = False
    quality: int | None = None


@dataclass(frozen=True, slots=True)
class Grow:
    """Add members to a running elastic gang."""

    job: int
    members: tuple[PlacedMember, ...]


@dataclass(frozen=True, slots=True)
class Shrink:
    """Take the highest ranks of an elastic gang back, down to its minimum at most."""

    job: int
    members: tuple[PlacedMember, ...]
    on_behalf_of: int


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a running job: for a waiting one, or because its gang is below its minimum (None)."""

    job: int
    on_behalf_of: int | None


@dataclass(frozen=True, slots=True)
class Repartition:
    """Give an idle GPU another MIG layout. layout: (profile, placement start) of each instance."""

    gpu: int
    layout: tuple[tuple[str, int], ...]
    on_behalf_of: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Promise a waiting job a place from `start_at` on. amounts: (node, members, GPUs)."""

    job: int
    start_at: int
    amounts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Let a job wait, and say why.

    numbers: the reason's keys in their order: counts of members or GPUs, amounts of quota in parts
    (`PARTS_PER_GPU`), instants in seconds since the epoch, jobs by id.
    keeps: the devices kept for it until `keeps_until` while others give them back.
    """

    job: int
    reason: Reason
    numbers: tuple[tuple[str, Number], ...] = ()
    keeps: tuple[PlacedMember, ...] = ()
    keeps_until: int | None = None


Decision = Start | Grow | Shrink | Preempt | Repartition | Reserve | Hold
D = TypeVar("D", bound=Decision)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one cycle decided, in the order decided."""

    taken_at: int
    decisions: tuple[Decision, ...] = ()

    def of(self, kind: type[D]) -> Iterator[D]:
        """The decisions of one kind, in the order decided."""
        return (decision for decision in self.decisions if isinstance(decision, kind))

    @property
    def starts(self) -> tuple[Start, ...]:
        return tuple(self.of(Start))

    @property
    def holds(self) -> tuple[Hold, ...]:
        return tuple(self.of(Hold))
