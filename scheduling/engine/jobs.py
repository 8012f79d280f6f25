"""Jobs as the engine sees them: what they ask for, and what they hold while they run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from scheduling.engine.arrays import NEVER


class Access(StrEnum):
    """The one kind of GPU access that a member asks for."""

    WHOLE = "whole"
    SLICE = "slice"
    SHARE = "share"
    FRACTION = "fraction"
    NONE = "none"


class Level(IntEnum):
    """How close two nodes are; a smaller number is closer. Rows of `Snapshot.node_domain`."""

    NODE = 0
    NVL = 1
    RACK = 2
    BLOCK = 3
    FABRIC = 4


class ServiceClass(IntEnum):
    """What a job is promised, which decides where it may be placed and beside whom."""

    LATENCY_CRITICAL = 0
    LATENCY_SENSITIVE = 1
    TRAINING = 2
    OFFLINE = 3


class ParentState(StrEnum):
    """How far the job is that another one waits for."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one member asks for.

    count: GPUs (whole), instances of `profile` (slice) or replicas (share); 0 for the other kinds.
    gpu_milli: thousandths of one GPU (fraction). gpu_memory_mib: memory of the share or fraction.
    extras: amounts by name of further resources, such as network cards.
    """

    kind: Access = Access.NONE
    count: int = 0
    profile: str = ""
    gpu_milli: int = 0
    gpu_memory_mib: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    extras: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal members of one job: at least `min_member` to start with, at most `max_member`."""

    name: str = ""
    min_member: int = 1
    max_member: int = 1
    request: Request = Request()


@dataclass(frozen=True, slots=True)
class Dependency:
    """Another job that must end first: with success (`needs_success`), or in any way."""

    job: int
    needs_success: bool
    state: ParentState = ParentState.WAITING
    name: str = ""


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """One member and the devices it holds, as indexes into the snapshot.

    rank: counted from 0 inside its group. gpus: GPUs held whole, or the one a fraction lies on;
    instances and slots: rows of the MIG instances and share slots.
    """

    group: int
    rank: int
    node: int
    gpus: tuple[int, ...] = ()
    instances: tuple[int, ...] = ()
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a job asks for, waiting or running. Times are seconds since the epoch.

    id: the key in the database; the last word in every order. tenant: index into the snapshot's.
    flavors: indexes of acceptable flavors, best first; empty accepts any.
    gpu_memory_mib: least memory of each of its GPUs, 0 for any.
    walltime_seconds: the longest it may run; None has no limit.
    min_total: least members of all groups together, if more than the sum of their minima.
    required, preferred: topology wishes; `patience_seconds` after `submitted_at` a required level
    relaxes to the next higher one. island: its GPUs on one node share one NVLink island.
    grace_seconds: how long it may take to save its work when told to stop; None is the site's most.
    """

    id: int
    name: str
    tenant: int
    groups: tuple[Group, ...]
    priority: int = 0
    submitted_at: int = 0
    walltime_seconds: int | None = None
    flavors: tuple[int, ...] = ()
    gpu_memory_mib: int = 0
    min_total: int = 0
    required: Level | None = None
    preferred: Level | None = None
    patience_seconds: int | None = None
    island: bool = False
    service_class: ServiceClass = ServiceClass.TRAINING
    preemptible: bool = True
    standby: bool = False
    preempted: int = 0
    grace_seconds: int | None = None

    @property
    def min_members(self) -> int:
        """Members of all groups that it starts with at least."""
        if len(self.groups) == 1:
            return max(self.min_total, self.groups[0].min_member)
        return max(self.min_total, sum(group.min_member for group in self.groups))

    def is_whole(self, members: Sequence[PlacedMember]) -> bool:
        """Whether `members` are all that it needs at least."""
        if len(members) < self.min_members:
            return False
        if len(self.groups) == 1:
            return True
        counts = Counter(member.group for member in members)
        return all(counts[index] >= own.min_member for index, own in enumerate(self.groups))

    @property
    def is_elastic(self) -> bool:
        """Whether it may have more members than it starts with."""
        if len(self.groups) == 1:
            return self.groups[0].max_member > self.min_members
        return sum(group.max_member for group in self.groups) > self.min_members


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob(JobSpec):
    """A job that waits. held: somebody's hold flag; gates: other systems' gates on its pods."""

    held: bool = False
    not_before: int | None = None
    after: tuple[Dependency, ...] = ()
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob(JobSpec):
    """A job that holds devices: started, running, or told to stop and not yet gone.

    limit_end_at: when its walltime is over, None for never. expected_end_at: from its progress.
    checkpoint_at: when its last complete checkpoint was taken, None if unknown.
    stopping_members: those told to stop while the gang goes on; all of them while `stopping`.
    stopping_for: the waiting job that it makes room for.
    """

    members: tuple[PlacedMember, ...]
    started_at: int
    limit_end_at: int | None = None
    expected_end_at: int | None = None
    checkpoint_at: int | None = None
    stopping: bool = False
    stopping_members: tuple[PlacedMember, ...] = ()
    stopping_for: int | None = None
    protected_until: int = 0

    @property
    def staying(self) -> tuple[PlacedMember, ...]:
        """Members that have not been told to go while the gang goes on."""
        if not self.stopping_members:
            return self.members
        return tuple(own for own in self.members if own not in self.stopping_members)

    @property
    def ends_at(self) -> int:
        """The latest instant at which it may still hold devices, by its walltime."""
        return NEVER if self.limit_end_at is None else self.limit_end_at
