"""kube-scheduler in small: binds ungated pods by selector, taint and room, as soon as they can be.

A pod that fits nowhere is looked at again when a node changes or gains room, and then on that
node only; equal pods are tried once a round. So a long queue costs little.
"""

from dataclasses import dataclass, field

from simcluster import hami
from simcluster.claims import Claims
from simcluster.objects import (
    Obj,
    Stored,
    annotations_of,
    gates_of,
    is_deleting,
    is_finished,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    set_condition,
    uid_of,
)
from simcluster.quantity import milli
from simcluster.resources import CLAIMS, NODES, PODS
from simcluster.selectors import matches_expression
from simcluster.store import Event
from simcluster.world import World

SCHEDULER = "default-scheduler"
HOSTNAME = "kubernetes.io/hostname"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_REPELLING = frozenset({"NoSchedule", "NoExecute"})

Units = dict[str, int]


@dataclass(slots=True)
class NodeRoom:
    """What one node has and what its pods hold, in thousandths of each resource's unit."""

    name: str
    labels: dict[str, str]
    taints: list[Obj]
    allocatable: Units
    used: Units = field(default_factory=dict)
    load: float = 0.0

    def lacks(self, request: Units) -> str:
        """The first resource that is short, or ""."""
        for resource, wanted in request.items():
            if wanted > self.allocatable.get(resource, 0) - self.used.get(resource, 0):
                return resource
        return ""

    def hold(self, request: Units, sign: int) -> None:
        for resource, amount in request.items():
            self.used[resource] = self.used.get(resource, 0) + sign * amount
        self.weigh()

    def weigh(self) -> None:
        """Work out the load: the fullest share of any resource, 0 to 1."""
        shares = (self.used.get(r, 0) / have for r, have in self.allocatable.items() if have)
        self.load = max(shares, default=0.0)


def pod_request(pod: Obj) -> Units:
    """What a pod asks of its node, in thousandths, its one pod slot included."""
    total: Units = {}
    for container in pod["spec"]["containers"]:
        for resource, amount in _container_request(container).items():
            total[resource] = total.get(resource, 0) + amount
    for container in pod["spec"].get("initContainers") or []:
        for resource, amount in _container_request(container).items():
            total[resource] = max(total.get(resource, 0), amount)
    if hami.is_for_hami(pod):
        total = {r: amount for r, amount in total.items() if r not in hami.IGNORED}
    return {**{r: amount for r, amount in total.items() if amount}, "pods": 1000}


def _container_request(container: Obj) -> Units:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: milli(amount) for name, amount in wanted.items()}


def tolerates(tolerations: list[Obj], taint: Obj) -> bool:
    """Whether one of `tolerations` covers the taint."""
    for toleration in tolerations:
        if toleration.get("effect") not in {None, "", taint["effect"]}:
            continue
        if not toleration.get("key"):
            if toleration.get("operator") == "Exists":
                return True
            continue
        if toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator", "Equal") == "Exists":
            return True
        if (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def node_room(node: Obj) -> NodeRoom:
    """A node as the scheduler sees it, empty."""
    status = node.get("status", {})
    have = status.get("allocatable") or status.get("capacity") or {}
    taints = [t for t in node["spec"].get("taints") or [] if t["effect"] in _REPELLING]
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    return NodeRoom(
        name=name_of(node),
        labels=labels_of(node),
        taints=taints,
        allocatable={resource: milli(amount) for resource, amount in have.items()},
    )


class Scheduler:
    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes: dict[str, NodeRoom] = {}
        self._held: dict[str, tuple[str, Units]] = {}
        self._new: dict[str, None] = {}
        self._waiting: dict[str, str] = {}  # uid -> likeness
        self._claiming: dict[str, None] = {}  # of these, the uids of pods with claims
        self._queues: dict[str, dict[str, None]] = {}  # likeness -> uids, oldest first
        self._roomier: dict[str, None] = {}
        self.claims = Claims(world)
        self.hami = hami.Hami(world)

    def seen(self, event: Event) -> None:
        if event.resource is NODES:
            self._see_node(event)
        elif event.resource is PODS:
            self._see_pod(event)
        elif event.resource is CLAIMS:
            self._new |= dict.fromkeys(self._claiming)

    def act(self) -> bool:
        new, self._new = self._new, {}
        roomier, self._roomier = self._roomier, {}
        nodes = [self._nodes[name] for name in roomier if name in self._nodes]
        if nodes and self._queues:
            self._try_again(nodes)
        if new:
            self._try_new(list(new))
        return bool(new)

    def lacking(self, pod: Obj, node: str) -> str:
        """The resource a pod would lack on a node if it were bound there, not counting itself."""
        room = self._nodes.get(node)
        if room is None:
            return ""
        held = self._held.get(uid_of(pod))
        if held is None or held[0] != node:
            return room.lacks(pod_request(pod))
        short = {r: a for r, a in held[1].items() if room.used[r] > room.allocatable.get(r, 0)}
        return next(iter(short), "")

    def _see_node(self, event: Event) -> None:
        name = name_of(event.obj)
        if event.kind == "DELETED":
            self._nodes.pop(name, None)
            return
        room = node_room(event.obj)
        old = self._nodes.get(name)
        if old is not None:
            room.used = old.used
            room.weigh()
            if room == old:
                return
        else:
            for held_on, request in self._held.values():
                if held_on == name:
                    room.hold(request, 1)
        self._nodes[name] = room
        self._roomier[name] = None

    def _see_pod(self, event: Event) -> None:
        pod, uid = event.obj, uid_of(event.obj)
        node = node_of(pod)
        if event.kind == "DELETED" or is_finished(pod):
            self._release(uid)
        elif node:
            self._take(uid, node, pod)
        if event.kind == "DELETED" or node or is_finished(pod) or is_deleting(pod):
            self._new.pop(uid, None)
            self._forget(uid)
        elif pod["spec"].get("schedulerName", SCHEDULER) in {SCHEDULER, hami.SCHEDULER} and (
            event.old is None or event.old["spec"] != pod["spec"]
        ):
            self._new[uid] = None

    def _take(self, uid: str, node: str, pod: Obj) -> None:
        if uid in self._held:
            return
        request = pod_request(pod)
        self._held[uid] = (node, request)
        if node in self._nodes:
            self._nodes[node].hold(request, 1)

    def _release(self, uid: str) -> None:
        node, request = self._held.pop(uid, ("", {}))
        if node in self._nodes:
            self._nodes[node].hold(request, -1)
            self._roomier[node] = None

    def _try_again(self, nodes: list[NodeRoom]) -> None:
        """Try waiting pods on nodes that gained room, of equal ones only until one fails."""
        heads = {likeness: self._head(likeness) for likeness in list(self._queues)}
        waiting = {likeness: pod for likeness, pod in heads.items() if pod is not None}
        for likeness in sorted(waiting, key=lambda name: _queue_order(waiting[name])):
            pod = heads[likeness]
            while pod is not None:
                chosen = self._choose(pod, nodes)
                if chosen is None:
                    break
                self._bind(pod, chosen)
                pod = self._head(likeness)

    def _head(self, likeness: str) -> Stored | None:
        """The first pod that waits in one queue."""
        for uid in self._queues.get(likeness, {}):
            found = self._world.store.by_uid(uid)
            return None if found is None else found[1]
        return None

    def _try_new(self, uids: list[str]) -> None:
        """Try pods on every node; of equal ones none after the first that fails."""
        found = [self._world.store.by_uid(uid) for uid in uids]
        failed: dict[str, str] = {}
        for pod in sorted((each[1] for each in found if each is not None), key=_queue_order):
            self._forget(uid_of(pod))
            if gates_of(pod):
                self._mark(pod, "SchedulingGated", message=_GATED)
                continue
            likeness = _likeness(pod)
            chosen = None if likeness in failed else self._choose(pod, None)
            if chosen is not None:
                self._bind(pod, chosen)
                continue
            if likeness not in failed:
                failed[likeness] = self._why_not(pod)
            self._keep_waiting(pod, likeness, why=failed[likeness])

    def _forget(self, uid: str) -> None:
        """Take a pod out of the queue it waits in."""
        self._claiming.pop(uid, None)
        likeness = self._waiting.pop(uid, None)
        if likeness is not None:
            self._queues[likeness].pop(uid)
            if not self._queues[likeness]:
                del self._queues[likeness]

    def _choose(self, pod: Obj, nodes: list[NodeRoom] | None) -> NodeRoom | None:
        """The least loaded node that fits; of equal ones the oldest."""
        request = pod_request(pod)
        best: NodeRoom | None = None
        for room in self._candidates(pod, nodes):
            if best is not None and room.load >= best.load:
                continue
            if not room.lacks(request) and not self._objection(pod, room):
                best = room
        return best

    def _candidates(self, pod: Obj, nodes: list[NodeRoom] | None) -> list[NodeRoom]:
        wanted = (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME)
        if nodes is not None:
            return nodes
        if wanted in self._nodes and self._nodes[wanted].labels.get(HOSTNAME) == wanted:
            return [self._nodes[wanted]]
        return list(self._nodes.values())

    def _objection(self, pod: Obj, room: NodeRoom) -> str:
        """Why a pod may not go to a node whatever its room, in the real scheduler's words."""
        spec = pod["spec"]
        selector = spec.get("nodeSelector") or {}
        if any(room.labels.get(key) != value for key, value in selector.items()):
            return "node(s) didn't match Pod's node affinity/selector"
        if not _affinity_holds(spec, room):
            return "node(s) didn't match Pod's node affinity/selector"
        for taint in room.taints:
            if not tolerates(spec.get("tolerations") or [], taint):
                if taint["key"] == "node.kubernetes.io/unschedulable":
                    return "node(s) were unschedulable"
                return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        if spec.get("resourceClaims") and self.claims.plan(pod, room.name) is None:
            return "cannot allocate all claims"
        return self.hami.objection(pod, room.name)

    def _why_not(self, pod: Obj) -> str:
        request = pod_request(pod)
        counts: dict[str, int] = {}
        for room in self._nodes.values():
            why = self._objection(pod, room) or f"Insufficient {room.lacks(request)}"
            why = "Too many pods" if why == "Insufficient pods" else why
            counts[why] = counts.get(why, 0) + 1
        total = len(self._nodes)
        if not counts:
            return "no nodes available to schedule pods"
        listed = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
        return (
            f"0/{total} nodes are available: {listed}. preemption: 0/{total} nodes are available: "
            f"{total} Preemption is not helpful for scheduling."
        )

    def _bind(self, pod: Stored, room: NodeRoom) -> None:
        uid = uid_of(pod)
        if pod["spec"].get("resourceClaims"):
            self.claims.allocate(pod, room.name)
        if hami.is_for_hami(pod):
            pod = self.hami.allocate(pod, room.name)
        bind(self._world, pod, room.name)
        self._forget(uid)
        self._take(uid, room.name, pod)
        message = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {room.name}"
        self._world.tell((PODS, pod), "Scheduled", message=message, source=SCHEDULER, warn=False)

    def _keep_waiting(self, pod: Stored, likeness: str, *, why: str) -> None:
        """Queue a pod that fits nowhere, and say why."""
        if pod["spec"].get("resourceClaims"):
            self._claiming[uid_of(pod)] = None
        self._waiting[uid_of(pod)] = likeness
        self._queues.setdefault(likeness, {})[uid_of(pod)] = None
        self._mark(pod, "Unschedulable", message=why)
        self._world.tell((PODS, pod), "FailedScheduling", message=why, source=SCHEDULER, warn=True)

    def _mark(self, pod: Stored, reason: str, *, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
        }
        at = self._world.clock.stamp()
        self._world.store.change(
            PODS, pod, lambda new: _set_pod_condition(new, condition=condition, at=at)
        )


def bind(world: World, pod: Stored, node: str) -> Stored:
    """Write a pod's node down, as the binding subresource does."""
    at = world.clock.stamp()

    def write(new: Obj) -> None:
        new["spec"]["nodeName"] = node
        _set_pod_condition(new, condition={"type": "PodScheduled", "status": "True"}, at=at)

    return world.store.change(PODS, pod, write)


def _set_pod_condition(new: Obj, *, condition: Obj, at: str) -> None:
    status = new.setdefault("status", {})
    set_condition(status, {"lastProbeTime": None, **condition}, at=at)


def _queue_order(pod: Obj) -> tuple[int, str, int]:
    metadata = pod["metadata"]
    priority = -int(pod["spec"].get("priority") or 0)
    return priority, metadata["creationTimestamp"], int(metadata["resourceVersion"])


def _likeness(pod: Obj) -> str:
    """Equal for pods that fit on the same nodes."""
    spec = pod["spec"]
    resources = [c.get("resources") for c in spec["containers"]]
    names = ("priority", "nodeSelector", "affinity", "tolerations")
    parts = [spec.get(name) for name in names] + [resources]
    if spec.get("resourceClaims"):
        parts.append(uid_of(pod))  # its claims are its own
    if hami.is_for_hami(pod):
        parts.append(annotations_of(pod).get(hami.USE_UUID, hami.SCHEDULER))
    return repr((*parts, [c.get("resources") for c in spec.get("initContainers") or []]))


def _affinity_holds(spec: Obj, room: NodeRoom) -> bool:
    """Required node affinity: one term must hold, and in it every requirement."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_holds(term, room) for term in required.get("nodeSelectorTerms") or [])


def _term_holds(term: Obj, room: NodeRoom) -> bool:
    by_label = term.get("matchExpressions") or []
    by_field = term.get("matchFields") or []
    if not by_label and not by_field:
        return False
    fields = {"metadata.name": room.name}
    return all(matches_expression(e, room.labels) for e in by_label) and all(
        matches_expression(e, fields) for e in by_field
    )
