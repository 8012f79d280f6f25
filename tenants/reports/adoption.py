"""Namespaces of a cluster as operators look at them before and after taking one over."""

from collections import defaultdict
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from tenants.models import AdoptedNamespace
from topology.models import Cluster, ClusterCheck

# What becomes of work when its namespace is taken over, by its state.
FATES: dict[str, Promise] = {
    "running": _("goes on until it ends, and counts as used"),
    "waiting": _("was made before: the cluster places it as soon as there is room"),
    "held": _("waits at the gate; submit it as a job, or give the namespace back"),
    "active": _("its pods go on; new ones wait at the gate"),
    "suspended": _("when it is resumed, its pods wait at the gate"),
}
STATES: dict[str, Promise] = {
    "running": _("running"),
    "waiting": _("waiting"),
    "held": _("held at the gate"),
    "active": _("at work"),
    "suspended": _("suspended"),
}


@dataclass(frozen=True, slots=True)
class Work:
    """kind: pod or job. where: the node that it runs on; empty while it has none."""

    kind: str
    name: str
    state: str
    gpus: int
    where: str = ""

    @property
    def state_says(self) -> Promise:
        return STATES[self.state]

    @property
    def fate(self) -> Promise:
        return FATES[self.state]


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """adoption: the wish that is in force, or None. kept: Muster made it."""

    name: str
    kept: bool
    work: tuple[Work, ...]
    adoption: AdoptedNamespace | None

    @property
    def running_gpus(self) -> int:
        return sum(work.gpus for work in self.work if work.where)

    @property
    def waiting_gpus(self) -> int:
        return sum(work.gpus for work in self.work if work.state == "waiting")

    @property
    def held_count(self) -> int:
        return sum(work.state == "held" for work in self.work)


def namespace_rows(cluster: Cluster) -> tuple[NamespaceRow, ...]:
    """The namespaces as last looked at, those with work on GPUs first, then by name. 3 queries.

    What runs is as it is now, from the nodes.
    """
    check = ClusterCheck.objects.filter(cluster=cluster).first()
    running = _running(cluster)
    wishes = AdoptedNamespace.objects.filter(cluster=cluster, returned_at=None)
    adoptions = {row.name: row for row in wishes.select_related("tenant")}
    rows = [
        NamespaceRow(
            name=seen["name"],
            kept=seen["kept"],
            work=(*running[seen["name"]], *(_work(said) for said in seen["work"])),
            adoption=adoptions.get(seen["name"]),
        )
        for seen in (check.namespaces if check else ())
    ]
    return tuple(sorted(rows, key=lambda row: (not row.work, row.name)))


def _work(said: dict[str, object]) -> Work:
    gpus = said["gpus"]
    return Work(str(said["kind"]), str(said["name"]), str(said["state"]), int(str(gpus)))


def _running(cluster: Cluster) -> dict[str, list[Work]]:
    """Pods of others that hold GPUs, by namespace."""
    found: dict[str, list[Work]] = defaultdict(list)
    for node in cluster.nodes.present().exclude(others=[]).order_by("name"):
        for use in node.others:
            namespace, _slash, pod = use["name"].partition("/")
            if use["gpus"]:
                found[namespace].append(Work("pod", pod, "running", use["gpus"], node.name))
    return found
