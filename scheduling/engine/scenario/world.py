"""What a scenario declares. Lines and, in a simulation, the decisions of plans change it."""

from dataclasses import dataclass, field
from typing import Final

from scheduling.engine.jobs import Group, Level, ServiceClass
from scheduling.engine.policy import Policy
from scheduling.engine.scenario.values import Quota
from scheduling.engine.snapshot import GpuMode
from topology.catalog.gpus import find_model

NOBODY: Final = "default"
"""The tenant of jobs that name none: it has no limits."""

Sharing = tuple[GpuMode, int, bool]
"""How a GPU is shared, into how many replicas, and whether one member may have several."""

Layout = tuple[tuple[int, str], ...]
"""The MIG instances of a GPU: (placement start, profile), by start."""


@dataclass(slots=True)
class GpuState:
    """One GPU of a node, as declared."""

    sharing: Sharing = (GpuMode.EXCLUSIVE, 1, False)
    faulty: bool = False
    layout: Layout = ()
    faulty_starts: set[int] = field(default_factory=set)

    @property
    def mode(self) -> GpuMode:
        return self.sharing[0]


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
    """A tenant or a cohort, as declared. used, budget: GPU-seconds."""

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
    """A placed member with its devices by node and number, which stay as nodes come and go.

    instances: (GPU, placement start). slots: (GPU, replica).
    """

    group: int
    rank: int
    node: str
    gpus: tuple[int, ...] = ()
    instances: tuple[tuple[int, int], ...] = ()
    slots: tuple[tuple[int, int], ...] = ()

    @property
    def numbers(self) -> set[int]:
        """Of the GPUs that it has, or has a part of."""
        return {*self.gpus, *(gpu for gpu, _ in (*self.instances, *self.slots))}


@dataclass(slots=True)
class Job:
    """A job as declared, and how far it is: waiting, running, stopping, done, failed, cancelled.

    takes: how long it really runs; worked: how much of that its last checkpoint has.
    stop, grace, save: how long it takes to be gone once told.
    """

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
    worked: int = 0
    gone_at: int | None = None
    stopping_for: int | None = None
    is_cancelled: bool = False

    @property
    def is_placed(self) -> bool:
        return self.state in {"running", "stopping"}

    @property
    def has_ended(self) -> bool:
        return self.state in {"done", "failed", "cancelled"}


@dataclass(slots=True)
class Keep:
    """Devices kept for a waiting job."""

    job: str
    seats: tuple[Seat, ...]
    until: int


@dataclass(slots=True)
class PromisedBlock:
    """Whole GPUs by node that are promised to people for a window."""

    name: str
    amounts: tuple[tuple[int, str], ...]
    start: int
    end: int
    tenant: str = ""


@dataclass(slots=True)
class World:
    """Everything that a scenario has said so far. Times are seconds from its beginning."""

    nodes: dict[str, Node] = field(default_factory=dict)
    oversub: dict[tuple[Level, str], int] = field(default_factory=dict)
    cohorts: dict[str, Owner] = field(default_factory=dict)
    tenants: dict[str, Owner] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    keeps: dict[str, Keep] = field(default_factory=dict)
    blocks: dict[str, PromisedBlock] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    last_id: int = 0

    def next_id(self) -> int:
        """A job id that was not given before."""
        self.last_id += 1
        return self.last_id

    def names(self) -> dict[int, str]:
        """Names of all jobs by id."""
        return {job.id: job.name for job in self.jobs.values()}

    def placed(self) -> list[Job]:
        """Jobs that hold devices."""
        return [job for job in self.jobs.values() if job.is_placed]
