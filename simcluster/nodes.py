"""The node controller: nodes that fall silent, taints that drive pods out, pods of lost nodes."""

from functools import partial

from simcluster import removal
from simcluster.clock import seconds_of
from simcluster.kubelet import Kubelets
from simcluster.objects import (
    DISRUPTION_TARGET,
    Obj,
    Stored,
    condition_of,
    is_deleting,
    is_finished,
    name_of,
    node_of,
    set_condition,
    uid_of,
)
from simcluster.removal import Removal
from simcluster.resources import NODES, PODS
from simcluster.scheduler import tolerates
from simcluster.store import Event
from simcluster.world import World

RANK_NODE = 4
SILENT_SECONDS = 40.0
ORPHAN_SECONDS = 58.0
_UNREACHABLE = "node.kubernetes.io/unreachable"
_FIT = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_LOST = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
_AT_ONCE = Removal(grace_seconds=0)


class NodeController:
    def __init__(self, world: World, kubelets: Kubelets) -> None:
        self._world = world
        self._kubelets = kubelets
        self._tainted: dict[str, None] = {}
        self._planned: dict[str, float] = {}
        self._lost: dict[str, None] = {}

    def seen(self, event: Event) -> None:
        if event.resource is NODES:
            if event.kind == "DELETED":
                self._lost[name_of(event.obj)] = None
            elif event.obj["spec"].get("taints"):
                self._tainted[name_of(event.obj)] = None
        elif event.resource is PODS and event.kind != "DELETED":
            self._see_pod(event)

    def act(self) -> bool:
        tainted, self._tainted = self._tainted, {}
        lost, self._lost = self._lost, {}
        for name in tainted:
            self._drive_out(name)
        for name in lost:
            due = self._world.clock.now() + ORPHAN_SECONDS
            self._world.timers.add(due, RANK_NODE, action=partial(self._clear, name))
        return bool(tainted or lost)

    def stop(self, name: str) -> None:
        """The node answers no more."""
        self._kubelets.down.add(name)
        due = self._world.clock.now() + SILENT_SECONDS
        self._world.timers.add(due, RANK_NODE, action=lambda: self._give_up(name))

    def start(self, name: str) -> None:
        """The node is back, and its pods with it."""
        node = self._world.store.get(NODES, "", name)
        if node is not None:
            self._set_ready(node, _FIT, message="kubelet is posting ready status")
        self._kubelets.resume(name)

    def resume(self) -> None:
        """After a restart: nodes that were lost stay lost, until they are said to be back."""
        for node in self._world.store.all(NODES):
            ready = condition_of(node, "Ready")
            if ready is not None and ready["status"] == "Unknown":
                self._kubelets.down.add(name_of(node))

    def _see_pod(self, event: Event) -> None:
        name = node_of(event.obj)
        bound_now = event.old is None or node_of(event.old) != name
        if not name or not bound_now:
            return
        node = self._world.store.get(NODES, "", name)
        if node is None:
            self._lost[name] = None
        elif any(t["effect"] == "NoExecute" for t in node["spec"].get("taints") or []):
            self._tainted[name] = None

    def _give_up(self, name: str) -> None:
        node = self._world.store.get(NODES, "", name)
        if node is None or name not in self._kubelets.down:
            return
        self._set_ready(node, _LOST, message="Kubelet stopped posting node status.")
        self._world.tell(
            (NODES, node),
            "NodeNotReady",
            message=f"Node {name} status is now: NodeNotReady",
            source="node-controller",
            warn=False,
        )
        for pod in self._world.store.pods_on(name):
            self._mark_not_ready(pod)

    def _set_ready(self, node: Stored, condition: Obj, *, message: str) -> None:
        at, lost = self._world.clock.stamp(), condition["status"] != "True"

        def write(new: Obj) -> None:
            seen = {"lastHeartbeatTime": at, "message": message}
            set_condition(new["status"], {**condition, **seen}, at=at)
            taints = [t for t in new["spec"].get("taints") or [] if t["key"] != _UNREACHABLE]
            if lost:
                taints.append({"key": _UNREACHABLE, "effect": "NoSchedule", "timeAdded": at})
                taints.append({"key": _UNREACHABLE, "effect": "NoExecute", "timeAdded": at})
            new["spec"].pop("taints", None)
            if taints:
                new["spec"]["taints"] = taints

        self._world.store.change(NODES, node, write)

    def _mark_not_ready(self, pod: Stored) -> None:
        if is_finished(pod) or condition_of(pod, "Ready") is None:
            return
        at = self._world.clock.stamp()
        condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        self._world.store.change(
            PODS, pod, lambda new: _write_condition(new, condition=condition, at=at)
        )

    def _drive_out(self, name: str) -> None:
        """Evict what does not tolerate a NoExecute taint, each pod when its time is up."""
        node = self._world.store.get(NODES, "", name)
        taints = [] if node is None else node["spec"].get("taints") or []
        for taint in taints:
            if taint["effect"] == "NoExecute":
                for pod in self._world.store.pods_on(name):
                    self._plan_eviction(pod, taint)

    def _plan_eviction(self, pod: Stored, taint: Obj) -> None:
        if is_deleting(pod) or is_finished(pod):
            return
        tolerations = [t for t in pod["spec"].get("tolerations") or [] if tolerates([t], taint)]
        limits = [t.get("tolerationSeconds") for t in tolerations]
        if any(limit is None for limit in limits):
            return
        now = self._world.clock.now()
        since = seconds_of(taint["timeAdded"]) if "timeAdded" in taint else now
        due = since + min(limits, default=0)
        uid = uid_of(pod)
        if due <= now:
            self._evict(uid, taint)
        elif self._planned.get(uid) != due:
            self._planned[uid] = due
            self._world.timers.add(due, RANK_NODE, action=lambda: self._evict(uid, taint))

    def _evict(self, uid: str, taint: Obj) -> None:
        self._planned.pop(uid, None)
        found = self._world.store.by_uid(uid)
        if found is None or is_deleting(found[1]) or is_finished(found[1]):
            return
        node = self._world.store.get(NODES, "", node_of(found[1]))
        if node is None or not _has_taint(node, taint):
            return
        message = "Taint manager: deleting due to NoExecute taint"
        pod = disrupt(self._world, found[1], reason="DeletionByTaintManager", message=message)
        self._world.tell(
            (PODS, pod),
            "TaintManagerEviction",
            message=f"Marking for deletion Pod {pod['metadata']['namespace']}/{name_of(pod)}",
            source="taint-eviction-controller",
            warn=False,
        )
        removal.begin(self._world, PODS, pod, how=Removal())

    def _clear(self, name: str) -> None:
        """Pod garbage collection: fail and remove the pods of a node that is no more."""
        if self._world.store.get(NODES, "", name) is not None:
            return
        for pod in self._world.store.pods_on(name):
            now = pod
            if not is_finished(pod):
                message = "PodGC: node no longer exists"
                now = disrupt(self._world, pod, reason="DeletionByPodGC", message=message)
                now = self._world.store.change(PODS, now, _fail)
            removal.begin(self._world, PODS, now, how=_AT_ONCE)


def disrupt(world: World, pod: Stored, *, reason: str, message: str) -> Stored:
    """Say on the pod that it ends for no fault of its own, as a podFailurePolicy may ask."""
    at = world.clock.stamp()
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
    }
    return world.store.change(
        PODS, pod, lambda new: _write_condition(new, condition=condition, at=at)
    )


def _write_condition(new: Obj, *, condition: Obj, at: str) -> None:
    status = new.setdefault("status", {})
    set_condition(status, {"lastProbeTime": None, **condition}, at=at)


def _fail(new: Obj) -> None:
    new["status"]["phase"] = "Failed"


def _has_taint(node: Obj, taint: Obj) -> bool:
    wanted = (taint["key"], taint["effect"])
    return wanted in {(t["key"], t["effect"]) for t in node["spec"].get("taints") or []}
