"""What a cluster says and what it is told, in our words: values, no client behind them.

Instants are the cluster's own clock. A `version` grows with each change of the thing it belongs to,
so an older report can be told from a newer one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeen:
    """One device of a node. numa is -1 and memory_mib None where the node does not say.

    mode: a value of topology.models.GpuMode. replicas: 1 unless it is shared.
    slices: (profile, placement start) of its MIG instances.
    """

    index: int
    uuid: str
    model: str
    memory_mib: int | None = None
    island: int = 0
    numa: int = -1
    healthy: bool = True
    mode: str = "exclusive"
    replicas: int = 1
    slices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutSeen:
    """How a node says that its GPUs are cut up and shared, and how far a change has come.

    offers: allocatable, by resource name, without those of which there are none.
    mig_state: "", pending, rebooting, success or failed. sharing: "" for none, a SharingMode else.
    paused: labels of parts of the GPU Operator that are off during a change.
    """

    offers: Mapping[str, int] = field(default_factory=dict)
    mig_config: str = ""
    mig_state: str = ""
    plugin_config: str = ""
    strategy: str = "none"
    sharing: str = ""
    replicas: int = 1
    paused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod that holds GPUs of a node or parts of them. job: the id of ours; "" for others'."""

    namespace: str
    name: str
    owner: str = ""  # as "StatefulSet web"
    job: str = ""
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A machine as last reported; `gone` when it has left the cluster.

    back_ends: who hands out its GPUs, where that is not the device plugin alone: of SharingMode's
    Backend, in that order.
    """

    name: str
    uid: str = ""
    version: int = 0
    cpu_milli: int = 0  # allocatable, as is all room here
    memory_mib: int = 0
    gpu_count: int = 0
    is_cordoned: bool = False
    is_ready: bool = True
    gpu_product: str = ""
    gpu_memory_mib: int | None = None
    rack: str = ""
    fabric: str = ""
    nvlink_domain: str = ""
    gpus: tuple[GpuSeen, ...] = ()
    survey: Mapping[str, Any] = field(default_factory=dict)  # links, driver, gpudirect
    layout: LayoutSeen = LayoutSeen()
    back_ends: tuple[str, ...] = ()
    taints: tuple[Mapping[str, str], ...] = ()  # {key, value, effect}; others', not our own
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What pods that are not ours take of a node, and whose they are.

    name: "namespace/pod", or empty for all those together that ask for no GPU.
    scheduler: who placed it; empty for the cluster's own.
    """

    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0
    name: str = ""
    scheduler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersSeen:
    """All that pods without our label take of one node at this moment."""

    node: str
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StraySeen:
    """A pod that bears our label and is no member of any gang, such as one made by hand.

    use: None while it takes nothing: not on a node yet, ended, or gone.
    """

    node: str
    uid: str
    version: int
    use: Use | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """One pod of a gang.

    phase: a value of scheduling.states.MemberPhase, never "expected".
    checkpoint_at: when its last complete checkpoint was taken, as far as it says.
    stopping: told to end, still there; it should be gone at `stop_by`.
    foreign_gates: gates of others that hold it, which we leave alone.
    devices: what it was given, in the words of MemberRelease.devices; none if nobody says.
    part_of: UUIDs of GPUs that it was given parts of, where that is how it is said.
    by_hand: it bears our labels, and no Job of a gang has made it.
    use: what it takes of its node; None while it takes nothing.
    """

    namespace: str
    job: str  # public id
    group: str
    attempt: int
    rank: int
    pod_name: str
    pod_uid: str
    version: int
    phase: str
    node: str = ""
    bound_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    checkpoint_at: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    stopping: bool = False
    stop_by: datetime | None = None
    foreign_gates: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    part_of: tuple[str, ...] = ()
    by_hand: bool = False
    use: Use | None = None

    @property
    def key(self) -> "GangKey":
        """Of its gang."""
        return GangKey(
            namespace=self.namespace, job=self.job, group=self.group, attempt=self.attempt
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedSeen:
    """What a member's claim was given: (pool, device) by its driver's names; a pool is a node."""

    namespace: str
    job: str  # public id
    group: str
    attempt: int
    rank: int
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimable:
    """A GPU that can be claimed. memory_mib: None where it is not said."""

    device: str  # its driver's name for it
    uuid: str
    model: str = ""
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimablesSeen:
    """One list of GPUs of a node that can be claimed (a ResourceSlice); `gone` when it went."""

    name: str
    node: str
    gpus: tuple[Claimable, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsked:
    """The last `lines` lines that a pod's main container wrote, and of these at most `most` bytes.

    stamped: each line begins with the instant at which it was written, and a blank.
    """

    namespace: str
    pod_name: str
    lines: int
    most: int
    stamped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """The Kubernetes Job of one member group.

    members: how many pods it is to have.
    outcome: "" while it has none, then "complete" or "failed", with the cluster's word for why.
    """

    namespace: str
    job: str  # public id
    group: str
    attempt: int
    version: int
    members: int = 0
    outcome: str = ""
    reason: str = ""
    is_suspended: bool = False
    gone: bool = False

    @property
    def key(self) -> "GangKey":
        return GangKey(
            namespace=self.namespace, job=self.job, group=self.group, attempt=self.attempt
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBegun:
    """All that is there of one kind comes next, then `Listed`.

    version: of the list. Later ones that are known to us were another cluster's, or this one's
    before it was restored.
    """

    kind: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All that is there of one kind: what is known to us and not in `keys` has gone.

    kind: "nodes", "members", "groups", "others", "claims" or "claimables".
    keys: node names; pod uids; (public id, group) as "j-7k3m2q/main"; for others, names of the
    nodes that they take something of; uids of claims; names of lists.
    version: things newer than this may be missing from `keys` and be there all the same.
    """

    kind: str
    keys: frozenset[str]
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSeen:
    """The cluster answered when the wall clock showed `wall`, and its own clock showed `at`.

    at: None for a cluster that has no clock but the wall's.
    speed: of a simulated clock; 0 while it stands still.
    slack: how far off `wall` may be, as half of the time that the answer took.
    """

    at: datetime | None
    wall: datetime
    speed: float = 1.0
    slack: timedelta = timedelta(0)


Seen = (
    NodeSeen
    | MemberSeen
    | StraySeen
    | GroupSeen
    | OthersSeen
    | ClaimedSeen
    | ClaimablesSeen
    | ListBegun
    | Listed
    | ClockSeen
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancySpec:
    """What a cluster is to have for one tenant.

    gpus: the most that members of its jobs may hold together; None for no limit.
    """

    tenant: str  # slug
    namespace: str
    gpus: int | None
    may_reach_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One object that is not as it should be. fields: what differs; none when it is not there."""

    kind: str
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangKey:
    """One attempt of one member group."""

    namespace: str
    job: str  # public id
    group: str
    attempt: int

    @property
    def name(self) -> str:
        """Of its Kubernetes Job."""
        return f"{self.job}-{self.group}"


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A member group of a gang: how many members it has at least and at most."""

    name: str
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpec:
    """What one member group asks of the cluster: `members` equal pods, held at the gate.

    labels, annotations: carried onto the pods besides our own.
    walltime_seconds: None for no limit; the cluster's own limit is a net an hour above it.
    saved_seconds: run time that attempts before this one saved; the pods are told.
    priority_class: of the pods, which the cluster has; the cluster's default if it is not said.
    groups: of the whole gang, this one among them; it is the only one if they are not said.
    min_total: the least members of the whole gang, where that is more than its groups' together.
    by_claim: its GPUs are claimed one by one, where nodes give them so.
    in_pod_group: its pods name the PodGroup of the whole gang, where the cluster has such groups.
    gpu_milli, gpu_mib: each member's part of one GPU, which `back_end` gives, a SharingMode.
    """

    namespace: str
    job: str  # public id
    group: str
    attempt: int
    members: int
    gpus_per_member: int = 0
    slice_profile: str = ""
    slices_per_member: int = 0
    shares_per_member: int = 0
    gpu_milli: int = 0
    gpu_mib: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    walltime_seconds: int | None = None
    grace_seconds: int = 30
    saved_seconds: int = 0
    priority_class: str = ""
    groups: tuple[GroupSize, ...] = ()
    min_total: int = 0
    by_claim: bool = False
    in_pod_group: bool = False
    back_end: str = ""

    @property
    def devices_per_member(self) -> int:
        """GPUs, slices, shares or a part."""
        part = min(self.gpu_milli, 1)
        return self.gpus_per_member + self.slices_per_member + self.shares_per_member + part

    @property
    def key(self) -> GangKey:
        return GangKey(
            namespace=self.namespace, job=self.job, group=self.group, attempt=self.attempt
        )

    @property
    def whole(self) -> tuple[GroupSize, ...]:
        return self.groups or (GroupSize(self.group, self.members, self.members),)

    @property
    def least_members(self) -> int:
        return max(self.min_total, sum(group.least for group in self.whole))

    @property
    def most_members(self) -> int:
        return sum(group.most for group in self.whole)

    @property
    def is_opened_later(self) -> bool:
        """Whether something else has to be there before its pods are made."""
        return self.has_peers or self.by_claim

    @property
    def has_peers(self) -> bool:
        """Whether a member may have others to find."""
        return self.most_members > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousSpec:
    """The names by which a gang's members find each other, as long as one of its Jobs is there.

    owners: the uid of each of the gang's Jobs, by its name.
    """

    namespace: str
    job: str  # public id
    owners: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupSpec:
    """Of a gang's members, so many are bound together or none, as long as one of its Jobs is there.

    owners: the uid of each of the gang's Jobs, by its name. priority_class: as its members' is.
    """

    namespace: str
    job: str  # public id
    attempt: int
    least: int
    owners: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClaim:
    """The GPUs that a member is to be given, and no others. rank: within its group."""

    job: str  # public id
    group: str
    rank: int
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRelease:
    """Open the gate of one pod, onto one node.

    devices: on that node; GPU 5, the MIG instance of it that starts at 4 as 5@4, its share as 5#2.
    rank, world_size: the member's among all of the gang's, and how many those are.
    claim: where its node gives GPUs by claims.
    back_end, part_of: who gives it a part of a GPU, and the UUID of that.
    """

    namespace: str
    pod_name: str
    pod_uid: str
    node: str
    attempt: int
    devices: tuple[str, ...] = ()
    rank: int = 0
    world_size: int = 1
    claim: MemberClaim | None = None
    back_end: str = ""
    part_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReleased:
    """A gate that stayed shut, and why. gone: its pod is no longer there, or no longer that one."""

    release: MemberRelease
    why: str
    gone: bool = False
