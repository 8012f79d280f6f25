"""A full list of members, as a watcher begins with: those that rows know as they are cost nothing.

A cluster has tens of thousands of them, and hardly any has changed since the last watcher ended.
What is known is read once, when the list begins, and forgotten when it ends: meanwhile nobody else
takes in reports of this cluster.
"""

from scheduling.models import Member
from scheduling.states import ENDED_PHASES
from topology.kube.values import MemberSeen
from topology.models import Cluster, Node

_known: dict[int, dict[str, int]] = {}
"""By cluster, for as long as its members are listed: the version by which each pod is known."""


def begin_list(cluster: Cluster) -> None:
    """Remember what rows know of the cluster's live members. Two queries."""
    live = Member.objects.filter(job__cluster=cluster).exclude(phase__in=ENDED_PHASES)
    known = dict(live.exclude(pod_uid="").values_list("pod_uid", "seen_version"))
    strays = Node.objects.filter(cluster=cluster).exclude(strays={})
    for uids in strays.values_list("strays", flat=True):
        for uid in uids:
            known.pop(uid, None)  # taken for one that is in no ledger: to be looked at
    _known[cluster.pk] = known


def is_known(cluster: Cluster, seen: MemberSeen) -> bool:
    """Whether a pod is listed just as the rows know it."""
    return seen.version <= _known.get(cluster.pk, {}).get(seen.pod_uid, -1)


def end_list(cluster: Cluster) -> None:
    _known.pop(cluster.pk, None)
