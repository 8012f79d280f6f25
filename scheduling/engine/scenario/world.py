"""What a scenario declares, and the snapshot of it at one instant.

Lines of a scenario and, in a simulation, the decisions of plans change a `World`; each cycle sees
the snapshot that `World.snapshot` makes of it.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.jobs import (
    Dependency,
    Group,
    Level,
    ParentState,
    PendingJob,
    PlacedMember,
    RunningJob,
    ServiceClass,
)
from scheduling.engine.policy import Policy
from scheduling.engine.scenario.values import Quota
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, GpuMode, Quotas, Snapshot
from topology.catalog.gpus import find_model

RESOURCES: Final = ("cpu_milli", "memory_mib", "nics")
NOBODY: Final = "default"
"""The tenant of jobs that name none: it has no limits."""


@dataclass(slots=True)
class GpuState:
    """One GPU of a node, as declared."""

    faulty: bool = False
    mode: GpuMode = GpuMode.EXCLUSIVE
    replicas: int = 1
    many: bool = False
    layout: tuple[tuple[str, int], ...] = ()
    faulty_starts: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Node:
    """One node, as declared. Amounts are None where nobody counts."""

    name: str
    model: str
    count: int
    cpu_milli: int | None = None
    memory_mib: int | None = None
    nics: int | None = None
    rack: str = ""
    block: str = ""
    fabric: str = ""
    nvl: str = ""
    islands: tuple[tuple[int, ...], ...] = ()
    numa: tuple[tuple[int, ...], ...] = ()
    gpu_memory_mib: int | None = None
    sharing: tuple[GpuMode, int, bool] = (GpuMode.EXCLUSIVE, 1, False)
    auto_layout: bool = False
    gpudirect: bool = False
    dedicated: ServiceClass | None = None
    closed: bool = False
    window: int | None = None
    gpus: list[GpuState] = field(default_factory=list)

    @property
    def memory_of_gpu(self) -> int:
        """MiB of each of its GPUs, 0 if unknown."""
        if self.gpu_memory_mib is not None:
            return self.gpu_memory_mib
        model = find_model(self.model)
        return model.memory_mib if model else 0


@dataclass(slots=True)
class Owner:
    """A tenant or a cohort, as declared."""

    name: str
    cohort: str = ""
    weight: int = 1
    quotas: tuple[Quota, ...] | None = None
    used: int = 0
    max_priority: int | None = None
    budget: int | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Seat:
    """A placed member with its devices by node and number, which do not move as nodes come and go.

    instances: (GPU number, placement start); slots: (GPU number, placement start or -1, replica).
    """

    group: int
    rank: int
    node: str
    gpus: tuple[int, ...] = ()
    instances: tuple[tuple[int, int], ...] = ()
    slots: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class Job:
    """A job as declared, and how far it is: waiting, running, stopping, or how it ended."""

    id: int
    name: str
    groups: tuple[Group, ...] = ()
    tenant: str = NOBODY
    priority: int = 0
    models: tuple[str, ...] = ()
    gpu_memory_mib: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    nics: int = 0
    walltime: int | None = None
    takes: int | None = None
    required: str = ""
    preferred: str = ""
    patience: int | None = None
    island: bool = False
    service_class: ServiceClass = ServiceClass.TRAINING
    after: tuple[tuple[str, bool], ...] = ()
    not_before: int | None = None
    standby: bool = False
    fixed: bool = False
    held: bool = False
    gate: str = ""
    min_total: int = 0
    submitted: int = 0
    stop: int = 0
    grace: int | None = None
    save: int | None = None
    state: str = "waiting"
    seats: tuple[Seat, ...] = ()
    leaving: tuple[Seat, ...] = ()
    started: int = 0
    limit: int | None = None
    expected: int | None = None
    checkpoint: int | None = None
    protected: int = 0
    preempted: int = 0

    @property
    def is_placed(self) -> bool:
        return self.state in {"running", "stopping"}


@dataclass(slots=True)
class World:
    """Everything that a scenario has said so far. Times are seconds from its beginning."""

    nodes: dict[str, Node] = field(default_factory=dict)
    oversub: dict[tuple[Level, str], int] = field(default_factory=dict)
    cohorts: dict[str, Owner] = field(default_factory=dict)
    tenants: dict[str, Owner] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)

    def snapshot(self, at: int) -> Snapshot:
        """The world at one instant, as the engine sees it."""
        return _Survey(self, at).snapshot()

    def named(self, job_id: int) -> Job:
        """The job with this id."""
        return next(job for job in self.jobs.values() if job.id == job_id)


class _Survey:
    """Turns a world into arrays, with the look-ups from names to indexes that this needs."""

    def __init__(self, world: World, at: int) -> None:
        self.world = world
        self.at = at
        self.nodes = list(world.nodes.values())
        self.node_index = {node.name: index for index, node in enumerate(self.nodes)}
        self.flavors = self._flavors()
        self.owners = [*world.tenants.values(), *world.cohorts.values()]
        self.tenant_index = {name: index for index, name in enumerate(world.tenants)}
        counts = [node.count for node in self.nodes]
        self.first_gpu = [0, *np.cumsum(counts, dtype=int).tolist()]
        self.gpus = [(node, number) for node in self.nodes for number in range(node.count)]

    def _flavors(self) -> list[str]:
        """Words for flavors: those of nodes, then those that only quotas and jobs name."""
        words = dict.fromkeys(node.model for node in self.nodes)
        for owner in [*self.world.tenants.values(), *self.world.cohorts.values()]:
            words.update(dict.fromkeys(quota[0] for quota in owner.quotas or ()))
        for job in self.world.jobs.values():
            words.update(dict.fromkeys(job.models))
        return list(words) or ["gpu"]

    def snapshot(self) -> Snapshot:
        running = tuple(self._running(job) for job in self.world.jobs.values() if job.is_placed)
        pending = [job for job in self.world.jobs.values() if job.state == "waiting"]
        return Snapshot.of(
            taken_at=self.at,
            resources=RESOURCES,
            flavors=tuple(self.flavors),
            tenant_ids=tuple(range(len(self.tenant_index))),
            tenant_names=tuple(self.tenant_index),
            cohort_names=tuple(self.world.cohorts),
            tenant_strict=[owner.strict for owner in self.world.tenants.values()],
            quotas=self._quotas(running),
            pending=tuple(self._pending(job) for job in pending),
            running=running,
            **self._node_arrays(running),
            **self._gpu_arrays(running),
        )

    def _node_arrays(self, running: tuple[RunningJob, ...]) -> dict[str, Any]:
        amounts = [(node.cpu_milli, node.memory_mib, node.nics) for node in self.nodes]
        capacity = np.array(
            [[UNLIMITED if own is None else own for own in row] for row in amounts],
            dtype=np.int64,
        ).reshape(len(self.nodes), len(RESOURCES))
        free, releasing = capacity.copy(), np.zeros_like(capacity)
        for job in running:
            leaving = set(job.members if job.stopping else job.stopping_members)
            for member in job.members:
                request = job.groups[member.group].request
                held = [request.cpu_milli, request.memory_mib, dict(request.extras).get("nics", 0)]
                free[member.node] -= held
                releasing[member.node] += held if member in leaving else [0, 0, 0]
        return {
            "node_ids": tuple(range(len(self.nodes))),
            "node_names": tuple(node.name for node in self.nodes),
            "capacity": capacity.T,
            "free": free.T,
            "releasing": releasing.T,
            "node_flavor": [self.flavors.index(node.model) for node in self.nodes],
            "node_open": [not node.closed for node in self.nodes],
            "node_dedicated": [
                UNKNOWN if node.dedicated is None else node.dedicated for node in self.nodes
            ],
            "node_closes_at": [
                NEVER if node.window is None else node.window for node in self.nodes
            ],
            "node_gpudirect": [1 if node.gpudirect else UNKNOWN for node in self.nodes],
            "node_auto_layout": [node.auto_layout for node in self.nodes],
            **self._levels(),
        }

    def _levels(self) -> dict[str, Any]:
        words = [
            [node.name for node in self.nodes],
            [node.nvl or f"node:{node.name}" for node in self.nodes],
            [node.rack for node in self.nodes],
            [node.block for node in self.nodes],
            [node.fabric for node in self.nodes],
        ]
        names = [tuple(dict.fromkeys(row)) for row in words]
        rows = [[own.index(word) for word in row] for own, row in zip(names, words, strict=True)]
        oversub = [
            tuple(self.world.oversub.get((level, name), 0) for name in names[level])
            for level in Level
        ]
        return {
            "node_domain": rows,
            "domain_names": tuple(names),
            "domain_oversub_milli": tuple(oversub),
        }

    def _gpu_arrays(self, running: tuple[RunningJob, ...]) -> dict[str, Any]:
        free_milli = [1000] * len(self.gpus)
        for job in running:
            for member in job.members:
                for gpu in member.gpus:
                    free_milli[gpu] = 0
        return {
            "gpu_ids": tuple(range(len(self.gpus))),
            "gpu_models": tuple(self.flavors),
            "gpu_node": [self.node_index[node.name] for node, _ in self.gpus],
            "gpu_index": [number for _, number in self.gpus],
            "gpu_model": [self.flavors.index(node.model) for node, _ in self.gpus],
            "gpu_memory_mib": [node.memory_of_gpu for node, _ in self.gpus],
            "gpu_free_memory_mib": [node.memory_of_gpu for node, _ in self.gpus],
            "gpu_free_milli": free_milli,
            "gpu_island": [_set_of(node.islands, number, 0) for node, number in self.gpus],
            "gpu_numa": [_set_of(node.numa, number, UNKNOWN) for node, number in self.gpus],
            "gpu_open": [not node.gpus[number].faulty for node, number in self.gpus],
            "gpu_mode": [node.gpus[number].mode for node, number in self.gpus],
        }

    def _quotas(self, running: tuple[RunningJob, ...]) -> Quotas:
        usage = np.zeros((len(self.tenant_index), len(self.flavors)), dtype=np.int64)
        for job in running:
            for member in job.members:
                flavor = self.flavors.index(self.nodes[member.node].model)
                usage[job.tenant, flavor] += len(member.gpus) * PARTS_PER_GPU
        tables = np.zeros((3, len(self.owners), len(self.flavors)), dtype=np.int64)
        tables[1:] = UNLIMITED
        for row, owner in enumerate(self.owners):
            for model, *limits in owner.quotas or ():
                tables[:, row, self.flavors.index(model)] = limits
        cohorts = {name: len(self.tenant_index) + i for i, name in enumerate(self.world.cohorts)}
        return Quotas.of(
            tenants=len(self.tenant_index),
            cohorts=len(cohorts),
            flavors=len(self.flavors),
            parent=[cohorts.get(owner.cohort, UNKNOWN) for owner in self.owners],
            weight=[owner.weight for owner in self.owners],
            limited=[
                owner.quotas is not None or row >= len(self.tenant_index)
                for row, owner in enumerate(self.owners)
            ],
            nominal=tables[0],
            borrowing_limit=tables[1],
            lending_limit=tables[2],
            usage=usage,
        )

    def _asked(self, job: Job) -> dict[str, Any]:
        """What a job asks for, waiting or running."""
        extras = (("nics", job.nics),) if job.nics else ()
        groups = tuple(
            replace(
                group,
                request=replace(
                    group.request,
                    cpu_milli=job.cpu_milli,
                    memory_mib=job.memory_mib,
                    extras=extras,
                ),
            )
            for group in job.groups
        )
        return {
            "id": job.id,
            "name": job.name,
            "tenant": self.tenant_index[job.tenant],
            "groups": groups,
            "priority": job.priority,
            "submitted_at": job.submitted,
            "walltime_seconds": job.walltime,
            "flavors": tuple(self.flavors.index(model) for model in job.models),
            "gpu_memory_mib": job.gpu_memory_mib,
            "min_total": job.min_total,
            "required": Level[job.required.upper()] if job.required else None,
            "preferred": Level[job.preferred.upper()] if job.preferred else None,
            "patience_seconds": job.patience,
            "island": job.island,
            "service_class": job.service_class,
            "preemptible": not job.fixed,
            "standby": job.standby,
            "preempted": job.preempted,
            "grace_seconds": job.grace,
        }

    def _pending(self, job: Job) -> PendingJob:
        return PendingJob(
            held=job.held,
            not_before=job.not_before,
            after=tuple(self._dependency(name, ok) for name, ok in job.after),
            gates=(job.gate,) if job.gate else (),
            **self._asked(job),
        )

    def _dependency(self, name: str, needs_success: bool) -> Dependency:  # noqa: FBT001 -- a pair
        parent = self.world.jobs[name]
        states = {"done": ParentState.SUCCEEDED, "failed": ParentState.FAILED}
        state = states.get(parent.state, ParentState.WAITING)
        return Dependency(parent.id, needs_success, state, name)

    def _running(self, job: Job) -> RunningJob:
        return RunningJob(
            members=tuple(self._member(seat) for seat in job.seats),
            started_at=job.started,
            limit_end_at=job.limit,
            expected_end_at=job.expected,
            checkpoint_at=job.checkpoint,
            stopping=job.state == "stopping",
            stopping_members=tuple(self._member(seat) for seat in job.leaving),
            protected_until=job.protected,
            **self._asked(job),
        )

    def _member(self, seat: Seat) -> PlacedMember:
        first = self.first_gpu[self.node_index[seat.node]]
        gpus = tuple(first + number for number in seat.gpus)
        return PlacedMember(seat.group, seat.rank, self.node_index[seat.node], gpus)


def _set_of(sets: tuple[tuple[int, ...], ...], number: int, default: int) -> int:
    """Which of the sets holds `number`; `default` where there are none."""
    found = [index for index, own in enumerate(sets) if number in own]
    return found[0] if found else default


def held_by_node(world: World) -> dict[str, set[int]]:
    """The numbers of the GPUs that are in use, by node."""
    held: dict[str, set[int]] = defaultdict(set)
    for job in world.jobs.values():
        for seat in job.seats if job.is_placed else ():
            held[seat.node].update(seat.gpus)
    return held
