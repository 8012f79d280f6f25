"""What the API server fills in when an object is created."""

import base64

from simcluster.errors import forbidden
from simcluster.jobpods import CONTROLLER_UID, JOB_NAME
from simcluster.objects import Obj, gates_of, name_of, set_condition
from simcluster.resources import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    Resource,
)
from simcluster.world import World

_NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TROUBLE_SECONDS = 300
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def fill_in(resource: Resource, obj: Obj) -> None:
    """Put defaults into an object that a client wrote, new or changed, in place."""
    if resource is PODS:
        fill_pod_spec(obj["spec"])
        obj["spec"].setdefault("enableServiceLinks", True)
        for container in _containers(obj["spec"]):
            _fill_requests(container["resources"])
    elif resource is JOBS:
        _fill_job(obj["spec"])
    elif resource is NODES:
        obj.setdefault("spec", {})
    elif resource is PRIORITY_CLASSES:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def fill_in_status(resource: Resource, obj: Obj, *, at: str) -> None:
    """Put what controllers and kubelets rely on into a status that a client wrote, in place."""
    status = obj["status"]
    if resource is JOBS:
        for condition in status.get("conditions") or []:
            condition.setdefault("reason", "")
            condition.setdefault("lastTransitionTime", at)
    elif resource is PODS:
        if status.get("phase") == "Running":
            status.setdefault("startTime", at)
            _fill_containers(obj)
        for own in status.get("containerStatuses") or []:
            _fill_container(own, at=at)


def _fill_containers(pod: Obj) -> None:
    """A pod that runs has a status of each of its containers."""
    statuses = pod["status"].setdefault("containerStatuses", [])
    known = {own["name"] for own in statuses}
    names = [container["name"] for container in pod["spec"]["containers"]]
    statuses += [{"name": name} for name in names if name not in known]


def _fill_container(own: Obj, *, at: str) -> None:
    for name, value in {"ready": False, "restartCount": 0, "state": {}}.items():
        own.setdefault(name, value)
    state = own["state"]
    if "running" in state:
        state["running"].setdefault("startedAt", at)
    if "terminated" in state:
        for name, value in {"exitCode": 0, "startedAt": at, "finishedAt": at}.items():
            state["terminated"].setdefault(name, value)


def admit(world: World, resource: Resource, obj: Obj) -> None:
    """Complete a new object in place, as admission does: none of this is its writer's."""
    if resource is PODS:
        _admit_pod(world, obj)
    elif resource is JOBS:
        _give_selector(obj)
        _label_job(obj)
        obj["status"] = {}
    elif resource is NODES:
        status = obj.setdefault("status", {})
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))
    elif resource is NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        labels = obj["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = name_of(obj)
    elif resource is SECRETS:
        _admit_secret(obj)


def fill_pod_spec(spec: Obj) -> None:
    """Defaults of a pod spec, wherever it stands."""
    spec["containers"] = spec.get("containers") or []
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in _containers(spec):
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        latest = ":" not in container.get("image", "").rsplit("/", 1)[-1]
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _containers(spec: Obj) -> list[Obj]:
    return [*spec["containers"], *(spec.get("initContainers") or [])]


def _fill_requests(resources: Obj) -> None:
    """A limit without a request is one."""
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _admit_secret(secret: Obj) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None) or {}
    coded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    if coded:
        secret["data"] = {**(secret.get("data") or {}), **coded}


def _admit_pod(world: World, pod: Obj) -> None:
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _fill_priority(world, pod)
    admit_changed_pod(pod)
    status: Obj = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if gates_of(pod):
        condition = {
            "lastProbeTime": None,
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        set_condition(status, condition, at=world.clock.stamp())
    pod["status"] = status


def _fill_priority(world: World, pod: Obj) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    spec.setdefault("priority", _SYSTEM_PRIORITIES.get(name, 0))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    if not name or name in _SYSTEM_PRIORITIES:
        return
    found = world.store.get(PRIORITY_CLASSES, "", name)
    if found is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(PODS, name_of(pod), why=why)
    spec["priority"] = found.get("value", 0)
    spec["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")


def admit_changed_pod(pod: Obj) -> None:
    """Bear with a lost node for a while, whatever a writer leaves out, at birth and later."""
    spec = pod["spec"]
    tolerations = list(spec.get("tolerations") or [])
    known = {t.get("key") for t in tolerations if t.get("effect") in {None, "", "NoExecute"}}
    wait = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TROUBLE_SECONDS}
    missing = [key for key in _NODE_TROUBLE if key not in known and None not in known]
    tolerations += [{"key": key, **wait} for key in missing]
    spec["tolerations"] = tolerations


def _qos_class(spec: Obj) -> str:
    resources = [container.get("resources") or {} for container in spec["containers"]]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    names = ("cpu", "memory")
    same = all(
        (r.get("limits") or {}).get(n) is not None and r["limits"][n] == r["requests"].get(n)
        for r in resources
        for n in names
    )
    return "Guaranteed" if same else "Burstable"


def _fill_job(spec: Obj) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    indexed_limit = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", 2147483647 if indexed_limit else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        fill_pod_spec(template["spec"])


def _label_job(job: Obj) -> None:
    """A Job without labels bears those of its pods."""
    template = job["spec"].get("template")
    metadata = template.get("metadata") if isinstance(template, dict) else None
    if metadata and metadata.get("labels") and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(metadata["labels"])


def _give_selector(job: Obj) -> None:
    """Label the pods of a Job with its name and uid, and select them by the latter."""
    template = job["spec"].get("template")
    if job["spec"]["manualSelector"] or not isinstance(template, dict):
        return
    uid, name = job["metadata"]["uid"], name_of(job)
    metadata = template.setdefault("metadata", {})
    ours = {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
    metadata.setdefault("creationTimestamp", None)
    job["spec"].setdefault("selector", {"matchLabels": {CONTROLLER_UID: uid}})
