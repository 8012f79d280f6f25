"""Plans as text: one line per decision, in the order decided."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduling.engine.jobs import JobSpec, PlacedMember
from scheduling.engine.plan import (
    Decision,
    Grow,
    Hold,
    Number,
    Plan,
    Preempt,
    Reason,
    Repartition,
    Reserve,
    Shrink,
    Start,
    Unit,
    unit_of,
)
from scheduling.engine.scenario import values
from scheduling.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Renderer:
    """Writes decisions about one snapshot. origin: the instant from which times are counted.

    names: of jobs by id, for those that the snapshot does not hold.
    """

    snapshot: Snapshot
    origin: int
    names: dict[int, str]
    with_devices: bool = False

    def lines(self, plan: Plan) -> list[str]:
        return [self.line(decision) for decision in plan.decisions]

    def line(self, decision: Decision) -> str:
        words = _WRITERS[type(decision)](self, decision)
        return " ".join(word for word in words if word)

    def name(self, job: int) -> str:
        return self.names.get(job, str(job))

    def spec(self, job: int) -> JobSpec | None:
        jobs: Sequence[JobSpec] = (*self.snapshot.pending, *self.snapshot.running)
        return next((own for own in jobs if own.id == job), None)

    def place(self, job: int, members: Iterable[PlacedMember]) -> list[str]:
        """`2@a 3@b`, with groups `actor:3@a learner:2@b`: groups, then node order."""
        spec, members = self.spec(job), tuple(members)
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for member in members:
            counts[member.group, member.node] += 1
        words = []
        for (group, node), count in sorted(counts.items()):
            prefix = f"{spec.groups[group].name}:" if spec and spec.groups[group].name else ""
            words.append(f"{prefix}{count}@{self.snapshot.node_names[node]}")
        if self.with_devices and (devices := self._devices(members)):
            words.append(f"gpus={devices}")
        return words

    def _devices(self, members: Iterable[PlacedMember]) -> str:
        """`a/0-1+4,b/5@4,c/0#2`: GPUs, MIG instances by start, replicas; in node order."""
        snapshot = self.snapshot
        whole: dict[int, list[int]] = defaultdict(list)
        parts: list[tuple[int, int, str]] = []
        for member in members:
            name = snapshot.node_names[member.node]
            whole[member.node] += [int(snapshot.gpu_index[gpu]) for gpu in member.gpus]
            for row in member.instances:
                number = int(snapshot.gpu_index[snapshot.mig_gpu[row]])
                parts.append((member.node, row, f"{name}/{number}@{snapshot.mig_start[row]}"))
            for row in member.slots:
                gpu = int(snapshot.slot_gpu[row])
                replica = int((snapshot.slot_gpu[:row] == gpu).sum())
                number = int(snapshot.gpu_index[gpu])
                parts.append((member.node, row, f"{name}/{number}#{replica}"))
        texts = [
            (node, -1, f"{snapshot.node_names[node]}/{values.numbers_text(set(own))}")
            for node, own in whole.items()
            if own
        ]
        return ",".join(text for _, _, text in sorted([*texts, *parts]))

    def number(self, reason: Reason, key: str, value: Number) -> str:
        """`key=value` in the unit that the reason's key has."""
        unit = unit_of(reason, key, value)
        return f"{key}={self._value(unit, value)}"

    def _value(self, unit: Unit, value: Number) -> str:
        if isinstance(value, tuple):
            return ",".join(self.name(job) for job in value)
        if isinstance(value, str):
            return value
        if unit == Unit.JOB:
            return self.name(value)
        if unit == Unit.INSTANT:
            return values.time_text(value - self.origin)
        texts = {
            Unit.SECONDS: values.duration_text,
            Unit.GPU_SECONDS: _gpu_hours,
            Unit.PARTS: values.gpus_text,
            Unit.MIB: values.mib_text,
        }
        return texts[unit](value) if unit in texts else str(value)


def _gpu_hours(gpu_seconds: int) -> str:
    return f"{gpu_seconds / 3600:.3f}".rstrip("0").rstrip(".") + "h"


def _start(out: Renderer, start: Start) -> list[str]:
    return [
        "start",
        out.name(start.job),
        *out.place(start.job, start.members),
        "borrowed" if start.borrowed else "",
        "backfill" if start.backfill else "",
        "" if start.quality is None else f"quality={start.quality}",
    ]


def _grow(out: Renderer, grow: Grow) -> list[str]:
    return ["grow", out.name(grow.job), *out.place(grow.job, grow.members)]


def _shrink(out: Renderer, shrink: Shrink) -> list[str]:
    place = out.place(shrink.job, shrink.members)
    return ["shrink", out.name(shrink.job), *place, "for", out.name(shrink.on_behalf_of)]


def _preempt(out: Renderer, stop: Preempt) -> list[str]:
    why = ["below_min"] if stop.on_behalf_of is None else ["for", out.name(stop.on_behalf_of)]
    return ["stop", out.name(stop.job), *why]


def _repartition(out: Renderer, change: Repartition) -> list[str]:
    node = out.snapshot.node_names[int(out.snapshot.gpu_node[change.gpu])]
    gpu = f"{node}/{int(out.snapshot.gpu_index[change.gpu])}"
    layout = ",".join(f"{profile}@{start}" for profile, start in change.layout)
    return ["repartition", gpu, layout, "for", out.name(change.on_behalf_of)]


def _reserve(out: Renderer, reserve: Reserve) -> list[str]:
    amounts = [f"{gpus}@{out.snapshot.node_names[node]}" for node, _, gpus in reserve.amounts]
    at = values.time_text(reserve.start_at - out.origin)
    return ["reserve", out.name(reserve.job), at, *amounts]


def _hold(out: Renderer, hold: Hold) -> list[str]:
    numbers = [out.number(hold.reason, key, value) for key, value in hold.numbers]
    return ["hold", out.name(hold.job), hold.reason.value, *numbers]


_WRITERS: Final[Mapping[type, Callable[[Renderer, Any], list[str]]]] = {
    Start: _start,
    Grow: _grow,
    Shrink: _shrink,
    Preempt: _preempt,
    Repartition: _repartition,
    Reserve: _reserve,
    Hold: _hold,
}
