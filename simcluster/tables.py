"""Tables, as `kubectl get` asks for them: the columns of each kind of object."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from simcluster.clock import seconds_of
from simcluster.objects import Obj, annotations_of, condition_of, is_deleting, labels_of, name_of
from simcluster.resources import Resource

_PLAIN_SECONDS = 120
_COARSE_FROM = 10


@dataclass(frozen=True, slots=True)
class Form:
    """A table version (v1, v1beta1) and how much of each object goes with its row."""

    version: str
    whole: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `wide` ones show with -o wide only."""

    name: str
    cell: Callable[[Obj, float], Any]
    kind: str = "string"
    wide: bool = False


def wanted_form(headers: Mapping[str, str]) -> str | None:
    """The version of Table that the client accepts before anything else; None for plain JSON."""
    for choice in headers.get("accept", "").split(","):
        parameters = [part.strip() for part in choice.split(";")]
        if "as=Table" in parameters and "g=meta.k8s.io" in parameters:
            return "v1" if "v=v1" in parameters else "v1beta1"
        if parameters[0] in {"application/json", "*/*"} and len(parameters) == 1:
            return None
    return None


def table(resource: Resource, objects: Sequence[Obj], *, now: float, form: Form) -> Obj:
    """A Table of `objects`; ages are of `now`, in simulated time."""
    columns = COLUMNS.get(resource.id, _PLAIN)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": {
            "resourceVersion": objects[0]["metadata"]["resourceVersion"] if objects else ""
        },
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.kind,
                "format": "name" if column.name == "Name" else "",
                "description": "",
                "priority": int(column.wide),
            }
            for column in columns
        ],
        "rows": [_row(obj, columns, now=now, whole=form.whole) for obj in objects],
    }


def _row(obj: Obj, columns: Sequence[Column], *, now: float, whole: str) -> Obj:
    row: Obj = {"cells": [column.cell(obj, now) for column in columns]}
    if whole == "Object":
        row["object"] = obj
    elif whole == "Metadata":
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**partial, "metadata": obj["metadata"]}
    return row


def age(obj: Obj, now: float) -> str:
    """How old an object is, as kubectl writes it."""
    return duration(now - seconds_of(obj["metadata"]["creationTimestamp"]))


def duration(seconds: float) -> str:
    """45s, 3m20s, 5h12m, 2d3h, 40d."""
    left = max(0, int(seconds))
    if left < _PLAIN_SECONDS:
        return f"{left}s"
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for (big, size), (small, part) in pairwise(units):
        if left >= size:
            whole, rest = divmod(left, size)
            fine = rest // part
            return (
                f"{whole}{big}{fine}{small}" if fine and whole < _COARSE_FROM else f"{whole}{big}"
            )
    return f"{left}s"


def _field(*path: str) -> Callable[[Obj, float], Any]:
    def cell(obj: Obj, _now: float) -> Any:
        value: Any = obj
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return "<none>" if value in (None, "") else value

    return cell


def pod_status(pod: Obj) -> str:
    """The word that kubectl shows for a pod."""
    status = pod.get("status", {})
    word = status.get("reason") or status.get("phase", "Pending")
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    for own in status.get("containerStatuses") or []:
        waiting, ended = own["state"].get("waiting"), own["state"].get("terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif ended and ended.get("reason"):
            word = ended["reason"]
    if is_deleting(pod):
        word = "Terminating"
    return str(word)


def _pod_ready(pod: Obj, _now: float) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    ready = sum(bool(own.get("ready")) for own in statuses)
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_restarts(pod: Obj, _now: float) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return sum(own.get("restartCount", 0) for own in statuses)


def _pod_gpus(pod: Obj, _now: float) -> str:
    return annotations_of(pod).get("simcluster.muster.dev/devices", "<none>")


def _node_status(node: Obj, _now: float) -> str:
    ready = condition_of(node, "Ready") or {}
    word = {"True": "Ready", "False": "NotReady"}.get(ready.get("status", ""), "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _node_roles(node: Obj, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = [key.removeprefix(prefix) for key in labels_of(node) if key.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def _node_version(node: Obj, _now: float) -> str:
    return str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))


def _node_gpus(node: Obj, _now: float) -> str:
    status = node.get("status", {})
    return str(status.get("allocatable", {}).get("nvidia.com/gpu", "0"))


def _job_status(job: Obj, _now: float) -> str:
    status = job.get("status", {})
    if is_deleting(job):
        return "Terminating"
    for kind in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        condition = condition_of({"status": status}, kind)
        if condition and condition["status"] == "True":
            return kind
    return "Running"


def _job_completions(job: Obj, _now: float) -> str:
    done, wanted = job.get("status", {}).get("succeeded", 0), job["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = job["spec"].get("parallelism", 1)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Obj, now: float) -> str:
    status = job.get("status", {})
    if "startTime" not in status:
        return ""
    ended = status.get("completionTime")
    end = seconds_of(ended) if ended else now
    return duration(end - seconds_of(status["startTime"]))


def _event_age(event: Obj, now: float) -> str:
    last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return duration(now - seconds_of(last))


def _event_object(event: Obj, _now: float) -> str:
    about = event.get("involvedObject", {})
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _size(obj: Obj, _now: float) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


_NAME = Column("Name", lambda obj, _now: name_of(obj))
_AGE = Column("Age", age)
_PLAIN = (_NAME, _AGE)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", lambda pod, _now: pod_status(pod)),
        Column("Restarts", _pod_restarts, "integer"),
        _AGE,
        Column("IP", _field("status", "podIP"), wide=True),
        Column("Node", _field("spec", "nodeName"), wide=True),
        Column("GPUs", _pod_gpus, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _node_version),
        Column("GPUs", _node_gpus, wide=True),
    ),
    "jobs.batch": (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
    ),
    "namespaces": (_NAME, Column("Status", _field("status", "phase")), _AGE),
    "events": (
        Column("Last Seen", _event_age),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", _event_object),
        Column("Message", _field("message")),
        Column("Name", lambda obj, _now: name_of(obj), wide=True),
    ),
    "configmaps": (_NAME, Column("Data", _size, "integer"), _AGE),
    "secrets": (_NAME, Column("Type", _field("type")), Column("Data", _size, "integer"), _AGE),
    "services": (
        _NAME,
        Column("Type", _field("spec", "type")),
        Column("Cluster-IP", _field("spec", "clusterIP")),
        _AGE,
    ),
    "leases.coordination.k8s.io": (
        _NAME,
        Column("Holder", _field("spec", "holderIdentity")),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        Column("Value", _field("value"), "integer"),
        Column("Global-Default", lambda obj, _now: bool(obj.get("globalDefault")), "boolean"),
        _AGE,
    ),
}
