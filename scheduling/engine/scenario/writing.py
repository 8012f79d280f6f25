"""A snapshot as a scenario: the same cluster in words, so that a cycle can be read and changed.

What the language has no words for is refused by name rather than left out in silence.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from enum import Enum

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.jobs import (
    Access,
    JobSpec,
    Level,
    ParentState,
    PendingJob,
    PlacedMember,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import options, values
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, GpuMode, Snapshot

MILLI = 1000
_NOT_IN_A_WORD = re.compile(r"[^\w.-]+")


class UnsayableError(ValueError):
    """The snapshot holds something that no line of a scenario can say."""


def write_scenario(snapshot: Snapshot, policy: Policy) -> str:
    """The lines that `read_scenario` makes an equal cluster of; its plan is the same.

    Raises UnsayableError, naming what it cannot say.
    """
    return "\n".join(_Writer(snapshot, policy).lines()) + "\n"


class _Writer:
    """The names of things, and the lines about them."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._at = snapshot.taken_at
        jobs = (*snapshot.pending, *snapshot.running)
        self._lowest = min([0, *(job.priority for job in jobs)])
        self._flavors = _flavor_words(snapshot.flavors)
        self._names = {job.id: _word(job.name) for job in jobs}

    def lines(self) -> Iterator[str]:
        yield self._policy_line()
        for node in range(len(self._snapshot.node_ids)):
            yield self._node(node)
        yield from self._faulty()
        yield from self._owners()
        jobs: Sequence[JobSpec] = (*self._snapshot.pending, *self._snapshot.running)
        for job in sorted(jobs, key=lambda own: own.id):
            yield from self._job_lines(job)
        for held in self._snapshot.holds:
            if held.job in self._names:
                until = max(held.until, self._at + 1)  # one that has expired is not in force
                place = self._place(self._pending(held.job), held.members)
                yield f"keep {self._names[held.job]} on {place} until={self._time(until)}"
        for block in self._snapshot.blocks:
            place = ",".join(f"{gpus}@{self._node_name(node)}" for node, gpus in block.amounts)
            span = f"from={self._time(block.from_at)} to={self._time(block.to_at)}"
            tenant = "" if block.tenant is None else f" tenant={self._tenant(block.tenant)}"
            yield f"block {_word(block.name)} {place} {span}{tenant}"

    def _policy_line(self) -> str:
        words = []
        for field in fields(Policy):
            value = getattr(self._policy, field.name)
            if field.name == "across" and value is not None:
                value -= self._lowest
            words.append(f"{field.name}={_policy_value(field.name, value)}")
        return f"policy {' '.join(words)}"

    def _node(self, node: int) -> str:
        snapshot = self._snapshot
        gpus = [int(gpu) for gpu in (snapshot.gpu_node == node).nonzero()[0]]
        if any(snapshot.gpu_mode[gpu] != GpuMode.EXCLUSIVE for gpu in gpus):
            raise UnsayableError(f"shared GPUs on {self._node_name(node)}")
        memory = {int(snapshot.gpu_memory_mib[gpu]) for gpu in gpus} or {0}
        if len(memory) > 1:
            raise UnsayableError(f"GPUs of unequal memory on {self._node_name(node)}")
        words = [
            "node",
            self._node_name(node),
            f"{len(gpus)}x{self._flavors[int(snapshot.node_flavor[node])]}",
            *self._room(node),
            f"gpumem={memory.pop()}MiB",
            *self._domains(node),
            *_sets("islands", [int(snapshot.gpu_island[gpu]) for gpu in gpus], default=0),
            *_sets("numa", [int(snapshot.gpu_numa[gpu]) for gpu in gpus], default=UNKNOWN),
        ]
        if snapshot.node_gpudirect[node] == 1:
            words.append("gpudirect")
        if snapshot.node_dedicated[node] != UNKNOWN:
            words.append(
                f"dedicated={ServiceClass(int(snapshot.node_dedicated[node])).name.lower()}"
            )
        if not snapshot.node_open[node]:
            words.append("closed")
        if snapshot.node_closes_at[node] < NEVER:
            words.append(f"window={self._time(int(snapshot.node_closes_at[node]))}")
        return " ".join(words)

    def _room(self, node: int) -> Iterator[str]:
        for row, resource in enumerate(self._snapshot.resources):
            amount = int(self._snapshot.capacity[row, node])
            if amount < UNLIMITED:
                yield _amount(resource, amount)

    def _domains(self, node: int) -> Iterator[str]:
        for level in (Level.NVL, Level.RACK, Level.BLOCK, Level.FABRIC):
            index = int(self._snapshot.node_domain[level, node])
            name = self._snapshot.domain_names[level][index]
            shared = int((self._snapshot.node_domain[level] == index).sum()) > 1
            if name and (shared or level != Level.NVL):
                yield f"{level.name.lower()}={_word(name)}"

    def _faulty(self) -> Iterator[str]:
        snapshot = self._snapshot
        for gpu in (~snapshot.gpu_open).nonzero()[0]:
            yield f"gpu {self._device(int(gpu))} faulty"

    def _owners(self) -> Iterator[str]:
        snapshot, quotas = self._snapshot, self._snapshot.quotas
        tenants = len(snapshot.tenant_ids)
        for row in self._cohorts_from_the_top():
            yield " ".join(
                ["cohort", self._cohort(row), *self._parent(row, "parent"), *self._amounts(row)]
            )
        for row in range(tenants):
            words = ["tenant", self._tenant(row), *self._parent(row, "cohort")]
            words += self._amounts(row) if quotas.limited[row] else [f"weight={quotas.weight[row]}"]
            if snapshot.tenant_budget[row] < UNLIMITED:
                words.append(f"budget={int(snapshot.tenant_budget[row])}s")
            words.append(f"used={int(snapshot.tenant_history[row])}s")
            words += ["strict"] if snapshot.tenant_strict[row] else []
            yield " ".join(words)

    def _cohorts_from_the_top(self) -> list[int]:
        tenants = len(self._snapshot.tenant_ids)
        rows = range(tenants, tenants + len(self._snapshot.cohort_names))

        def depth(row: int) -> int:
            parent = int(self._snapshot.quotas.parent[row])
            return 0 if parent == UNKNOWN else 1 + depth(parent)

        return sorted(rows, key=depth)

    def _parent(self, row: int, word: str) -> list[str]:
        parent = int(self._snapshot.quotas.parent[row])
        return [] if parent == UNKNOWN else [f"{word}={self._cohort(parent)}"]

    def _amounts(self, row: int) -> list[str]:
        quotas = self._snapshot.quotas
        parts = []
        for flavor, word in enumerate(self._flavors):
            nominal, borrow, lend = (
                int(table[row, flavor])
                for table in (quotas.nominal, quotas.borrowing_limit, quotas.lending_limit)
            )
            if nominal or borrow < UNLIMITED or lend < UNLIMITED:
                limits = _limit("+", borrow) + _limit("-", lend)
                parts.append(f"{word}:{_gpus(nominal)}{limits}")
        words = [f"weight={int(quotas.weight[row])}"]
        return [*words, f"quota={','.join(parts) or f'{self._flavors[0]}:0'}"]

    def _job_lines(self, job: JobSpec) -> Iterator[str]:
        name = self._names[job.id]
        if isinstance(job, PendingJob):
            words = ["job", name, _shape(job, None), *self._asked(job), *self._waiting(job)]
            yield " ".join(words)
        elif isinstance(job, RunningJob) and job.members:
            if job.stopping_members and not job.stopping:
                raise UnsayableError(f"members of {name} that leave while it runs on")
            place = self._place(job, job.members)
            words = ["run", name, _shape(job, job.members), "on", place, *self._asked(job)]
            yield " ".join([*words, *self._running(job)])

    def _asked(self, job: JobSpec) -> Iterator[str]:
        asked = {
            (
                ("cpu_milli", group.request.cpu_milli),
                ("memory_mib", group.request.memory_mib),
                *group.request.extras,
            )
            for group in job.groups
        }
        if len(asked) > 1:
            raise UnsayableError(f"groups of {self._names[job.id]} that ask for unequal nodes")
        yield f"tenant={self._tenant(job.tenant)}"
        yield f"p{job.priority - self._lowest}"
        yield f"submitted={self._time(job.submitted_at)}"
        yield f"class={job.service_class.name.lower()}"
        yield from (_amount(resource, amount, "ram") for resource, amount in asked.pop() if amount)
        yield from (f"{key}={value}" for key, value in self._wishes(job) if value)
        flags = (("island", job.island), ("standby", job.standby), ("fixed", not job.preemptible))
        yield from (word for word, is_so in flags if is_so)

    def _wishes(self, job: JobSpec) -> Iterator[tuple[str, str]]:
        yield "model", "|".join(self._flavors[flavor] for flavor in job.flavors)
        yield "gpumem", f"{job.gpu_memory_mib}MiB" if job.gpu_memory_mib else ""
        yield "required", job.required.name.lower() if job.required is not None else ""
        yield "preferred", job.preferred.name.lower() if job.preferred is not None else ""
        yield "patience", _seconds(job.patience_seconds)
        yield "grace", _seconds(job.grace_seconds)
        yield "walltime", _seconds(job.walltime_seconds)
        yield "min_total", str(job.min_total or "")

    def _waiting(self, job: PendingJob) -> Iterator[str]:
        if job.not_before is not None:
            yield f"not_before={self._time(job.not_before)}"
        if job.held:
            yield "held"
        yield from (f"gate={_word(gate)}" for gate in job.gates[:1])
        parents = []
        for parent in job.after:
            if parent.state == ParentState.FAILED and parent.needs_success:
                raise UnsayableError(f"the failed job that {self._names[job.id]} waits for")
            if parent.state == ParentState.WAITING:
                parents.append(f"{_word(parent.name)}:{'ok' if parent.needs_success else 'any'}")
        if parents:
            yield f"after={','.join(parents)}"

    def _running(self, job: RunningJob) -> Iterator[str]:
        yield f"since={self._time(job.started_at)}"
        yield f"preempted={job.preempted}"
        instants = (
            ("ckpt", job.checkpoint_at),
            ("expected", job.expected_end_at),
            ("protected", job.protected_until or None),
        )
        yield from (f"{key}={self._time(at)}" for key, at in instants if at is not None)
        if job.stopping:
            yield "stopping"

    def _place(self, job: JobSpec, members: Iterable[PlacedMember]) -> str:
        """PLACE, and the devices after it."""
        in_order = sorted(members, key=lambda own: (own.group, own.rank))
        words = [
            f"{_prefix(job.groups[member.group].name)}1@{self._node_name(member.node)}"
            for member in in_order
        ]
        devices = [self._device(gpu) for member in in_order for gpu in member.gpus]
        return ",".join(words) + (f" gpus={','.join(devices)}" if devices else "")

    def _pending(self, job_id: int) -> JobSpec:
        return next(job for job in self._snapshot.pending if job.id == job_id)

    def _device(self, gpu: int) -> str:
        snapshot = self._snapshot
        node = int(snapshot.gpu_node[gpu])
        first = int((snapshot.gpu_node < node).sum())
        return f"{self._node_name(node)}/{gpu - first}"

    def _node_name(self, node: int) -> str:
        return _word(self._snapshot.node_names[node])

    def _tenant(self, row: int) -> str:
        return _word(self._snapshot.tenant_names[row])

    def _cohort(self, row: int) -> str:
        return _word(self._snapshot.cohort_names[row - len(self._snapshot.tenant_ids)])

    def _time(self, at: int) -> str:
        return f"{at - self._at:+d}s"


def _amount(resource: str, amount: int, memory_word: str = "mem") -> str:
    """`cpu=0.5`, `mem=64MiB`, `nics=8`."""
    if resource == "cpu_milli":
        return f"cpu={_milli(amount)}"
    if resource == "memory_mib":
        return f"{memory_word}={amount}MiB"
    if resource == "nics":
        return f"nics={amount}"
    raise UnsayableError(f"the resource {resource}")


def _shape(job: JobSpec, members: Sequence[PlacedMember] | None) -> str:
    """SHAPE; of a running job without the groups of which nobody is left."""
    present = {member.group for member in members} if members is not None else None
    shapes = []
    for index, group in enumerate(job.groups):
        if present is not None and index not in present:
            continue
        request = group.request
        if request.kind not in {Access.WHOLE, Access.NONE}:
            raise UnsayableError(f"parts of GPUs, as {job.name} asks for")
        least, most = group.min_member, group.max_member
        size = f"{least}..{most}" if most > least else f"{most}"
        shapes.append(f"{_prefix(group.name)}{size}x{request.count}")
    return "+".join(shapes)


def _prefix(name: str) -> str:
    return f"{name.replace('-', '_')}:" if name else ""


def _flavor_words(names: Sequence[str]) -> list[str]:
    """A word for each flavor; its own name unless the catalogue takes two for the same model."""
    words = [_word(name) for name in names]
    keys = [options.flavor(word) for word in words]
    return [
        word if keys.count(key) == 1 else f"flavor{index}"
        for index, (word, key) in enumerate(zip(words, keys, strict=True))
    ]


def _sets(word: str, of_gpu: Sequence[int], *, default: int) -> list[str]:
    """`islands=0+1,2-5` of the set that each GPU is in; nothing where all are in the default."""
    if set(of_gpu) <= {default}:
        return []
    numbers = sorted({own for own in of_gpu if own != UNKNOWN})
    members = [[gpu for gpu, own in enumerate(of_gpu) if own == number] for number in numbers]
    return [f"{word}={','.join(values.numbers_text(own) for own in members)}"]


def _policy_value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Enum):
        return str(value.value)
    return _milli(int(str(value))) if name == "history_weight" else str(value)


def _limit(sign: str, parts: int) -> str:
    return "" if parts >= UNLIMITED else f"{sign}{_gpus(parts)}"


def _gpus(parts: int) -> str:
    thousandths, rest = divmod(parts * MILLI, PARTS_PER_GPU)
    if rest:
        raise UnsayableError("a quota of less than a thousandth of a GPU")
    return _milli(thousandths)


def _milli(amount: int) -> str:
    """Thousandths as a number: `8` or `0.5`."""
    whole, rest = divmod(amount, MILLI)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def _seconds(length: int | None) -> str:
    return "" if length is None else f"{length}s"


def _word(name: str) -> str:
    return _NOT_IN_A_WORD.sub("_", name)
