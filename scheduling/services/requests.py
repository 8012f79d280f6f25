"""What a person or a program asks for; form, serializer and command all end in one of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from scheduling.models import Job, Level, ServiceClass
from tenants.models import PriorityClass
from topology.models import Cluster, ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Equal members. `min_member` and `max_member` are `members` unless the group may grow.

    Each has whole GPUs, or `slices_per_member` MIG slices of `slice_profile`, or shares of GPUs
    that are handed out to several at a time, or `gpu_milli` thousandths of one GPU that is given
    out by amounts, with `gpu_mib` of its memory.
    """

    name: str = "main"
    members: int = 1
    min_member: int | None = None
    max_member: int | None = None
    gpus_per_member: int = 1
    slice_profile: str = ""
    slices_per_member: int = 0
    shares_per_member: int = 0
    gpu_milli: int = 0
    gpu_mib: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def least(self) -> int:
        return self.members if self.min_member is None else self.min_member

    @property
    def most(self) -> int:
        return self.members if self.max_member is None else self.max_member

    @property
    def devices_per_member(self) -> int:
        """As `JobGroup.devices_per_member`, of the group that is made of it."""
        part = min(self.gpu_milli, 1)
        return self.gpus_per_member + self.slices_per_member + self.shares_per_member + part


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """Start only when `job` has ended, and with success if it `needs_success`."""

    job: Job
    needs_success: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a job would like of its place and its time; nothing is asked by default.

    required, preferred: how close its nodes are to be; after `patience_seconds` a required level
    relaxes to the next higher one. needs_island: its GPUs on one node share one NVLink island.
    grace_seconds: how long it takes to save its work when told to stop. after: other jobs first.
    """

    gpu_memory_mib: int = 0
    service_class: ServiceClass = ServiceClass.TRAINING
    is_standby: bool = False
    not_before: datetime | None = None
    required: Level | None = None
    preferred: Level | None = None
    patience_seconds: int | None = None
    needs_island: bool = False
    grace_seconds: int | None = None
    min_total: int | None = None
    after: tuple[After, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be. flavors: accepted ones, best first; none accepts all."""

    name: str
    cluster: Cluster
    groups: tuple[GroupRequest, ...] = (GroupRequest(),)
    flavors: tuple[ResourceFlavor, ...] = ()
    walltime_seconds: int | None = None
    priority_class: PriorityClass | None = None
    is_preemptible: bool = True
    wishes: Wishes = Wishes()
    image: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    external_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRequest:
    """`job`, `tasks` times. at_once: how many of them may hold GPUs at one time; None is all."""

    job: JobRequest
    tasks: int
    at_once: int | None = None
