"""What we need of a cluster, in our words.

Every call may be made twice: the second finds the work done and says so by returning. Every call
may raise ClusterAway, which means that it is worth trying again later, and nothing else.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from portal.core.errors import ClusterAway, Conflict, NotFound, Refused
from topology.kube.values import (
    Drift,
    GangKey,
    GangSpec,
    GroupSeen,
    LogAsked,
    MemberRelease,
    MemberSeen,
    NodeSeen,
    NotReleased,
    PodGroupSpec,
    RendezvousSpec,
    TenancySpec,
)
from topology.kube.wire import Obj

__all__ = [
    "AttemptMoved",
    "ClusterAway",
    "Gateway",
    "NotOffered",
    "NotStarted",
    "NotThere",
    "RefusedByCluster",
]


class NotThere(NotFound):
    """The thing is not in the cluster, or is another one of the same name."""

    code = "not_in_cluster"


class RefusedByCluster(Refused):
    """The cluster understood and said no; the message is its own."""

    code = "refused_by_cluster"


class NotOffered(Refused):
    """The cluster has no such thing, or does not let us make one; one does without."""


class AttemptMoved(Conflict):
    """The gang in the cluster belongs to another attempt: this call comes too late or too early."""

    code = "attempt_moved"


class NotStarted(Conflict):
    """The container has written nothing, since it does not run yet; the message says why."""

    code = "not_started"


class Gateway(Protocol):
    def has_tenancy(self, namespace: str) -> bool:
        """Whether a tenant's namespace is there and was made by `keep_tenancy`."""

    def tenancy_drift(self, spec: TenancySpec) -> tuple[Drift, ...]:
        """What of the tenant's objects is not as it should be.

        RefusedByCluster: the cluster does not let us look.
        """

    def keep_tenancy(self, spec: TenancySpec) -> None:
        """Bring the tenant's objects to what they should be; what others added stays.

        RefusedByCluster: one of them may not be changed by us; those before it are as they should.
        """

    def drift(self, objects: Sequence[Obj]) -> tuple[Drift, ...]:
        """What of these manifests is not as they say, as `tenancy_drift` has it."""

    def apply(self, objects: Sequence[Obj]) -> None:
        """Bring manifests to what they say, in this order, as `keep_tenancy` does its own."""

    def missing_policies(self) -> tuple[str, ...]:
        """Names of the rule sets that neither policies nor webhooks of the cluster have."""

    def ensure_gang(self, spec: GangSpec) -> str:
        """Make the gang, gated, or lead a suspended one on to this attempt.

        It is suspended if it has peers, else open. Returns the uid of its Job.

        RefusedByCluster: a Job of that name is there and not ours, or the spec is against a rule.
        AttemptMoved: it runs as another attempt; suspend that first.
        """

    def ensure_all(self, specs: Sequence[GangSpec]) -> frozenset[GangKey]:
        """Make many gangs at once, as `ensure_gang`; those that were not made are not among these.

        Why not is told to who asks for one of them by itself.
        """

    def ensure_rendezvous(self, spec: RendezvousSpec) -> None:
        """Give the gang's members host names; the cluster takes them back with the last Job.

        RefusedByCluster: something else of that name is there.
        """

    def ensure_pod_group(self, spec: PodGroupSpec) -> None:
        """Have the cluster's own scheduler bind the gang's first members all at once.

        NotOffered: it has no such groups, or we may not make one.
        """

    def ease_pod_group(self, namespace: str, job: str) -> None:
        """Let members that come later be bound one at a time; a gang without a group is fine.

        job: its public id.
        """

    def open_gang(self, key: GangKey) -> None:
        """Let the gang's pods be made; they wait at the gate.

        NotThere: no such gang. AttemptMoved: it is of another attempt.
        """

    def scale_gang(self, key: GangKey, members: int) -> None:
        """Have the gang so many pods, ranks 0 on: the highest go, new ones wait at the gate.

        NotThere: no such gang. AttemptMoved: it is of another attempt.
        """

    def limit_gang(self, key: GangKey, *, ends_at: datetime, wall_at: datetime) -> None:
        """Have the cluster end an open gang at `wall_at`, should nobody have done so by then.

        Its pods are told that their job is stopped at `ends_at`.
        NotThere: no such gang, or it is not open. AttemptMoved: it is of another attempt.
        """

    def gated_members(self, key: GangKey) -> tuple[MemberSeen, ...]:
        """The attempt's pods that wait at our gate, by rank; foreign gates are named in each."""

    def release(self, release: MemberRelease) -> None:
        """Open one pod's gate onto its node; one patch. Released there already is fine.

        NotThere: no pod of that uid. RefusedByCluster: it was released elsewhere, or may not be.
        """

    def release_all(
        self, releases: Sequence[MemberRelease], *, parallel: int = 16
    ) -> tuple[NotReleased, ...]:
        """Open many gates at once; what stayed shut comes back, in the order given.

        A cluster that went away in the middle is ClusterAway, after all were tried.
        """

    def suspend_gang(self, key: GangKey) -> bool:
        """Have the attempt's pods removed; False when the gang is gone or of another attempt."""

    def delete_gang(self, key: GangKey) -> None:
        """Remove the gang, whatever its attempt, with its pods; gone already is fine.

        A Job of that name that is not ours stays.
        """

    def remove_member(self, member: MemberSeen) -> None:
        """Remove one pod at once, whatever it is doing, and no other of its name; gone is fine."""

    def gangs(self) -> tuple[GroupSeen, ...]:
        """Every gang of ours that the cluster has."""

    def members(self, key: GangKey | None = None) -> tuple[MemberSeen, ...]:
        """Every pod that bears our labels, or those of one attempt; see MemberSeen.by_hand."""

    def members_of(self, keys: Sequence[GangKey]) -> tuple[MemberSeen, ...]:
        """The pods of these attempts: one list of them all where they are in one namespace."""

    def nodes(self) -> tuple[NodeSeen, ...]:
        """Every node."""

    def log(self, asked: LogAsked) -> bytes:
        """What the pod wrote, as it wrote it; nothing of one that has no node yet.

        NotThere: no such pod. NotStarted: it has a node, and its container does not run.
        RefusedByCluster: we may not read it.
        """
