"""Whether a manifest has the shape that later code relies on; a real server decodes no other."""

from datetime import datetime
from typing import Any

from simcluster.clock import seconds_of
from simcluster.errors import bad_request
from simcluster.objects import Obj
from simcluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    SLICES,
    Resource,
)

# Shapes: of a map by its names (those with a ! must be there), of a list by its items.
_INT = range(-(2**31), 2**31)
_TEXTS = {"": str}  # a map of any names
_OWNER = {"apiVersion": str, "kind!": str, "name!": str, "uid!": str, "controller": bool}
_METADATA = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "resourceVersion": str,
    "uid": str,
    "labels": dict,
    "annotations": dict,
    "finalizers": [str],
    "ownerReferences": [_OWNER],
}
_REQUIREMENT = {"key!": str, "operator!": str, "values": [str]}
_TERM = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_TOLERATION = {
    "key": str,
    "operator": str,
    "value": str,
    "effect": str,
    "tolerationSeconds": int,
}
_CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str}],
    "ports": [{"containerPort": _INT, "protocol": str}],
    "resources": {"limits": dict, "requests": dict},
}
_POD = {
    "restartPolicy": str,
    "nodeName": str,
    "hostname": str,
    "subdomain": str,
    "schedulerName": str,
    "serviceAccountName": str,
    "priorityClassName": str,
    "priority": _INT,
    "activeDeadlineSeconds": _INT,
    "terminationGracePeriodSeconds": _INT,
    "nodeSelector": dict,
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [_TERM]}
        }
    },
    "securityContext": dict,
    "tolerations": [_TOLERATION],
    "schedulingGates": [{"name!": str}],
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": str}],
    "resourceClaims": [{"name!": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
}
_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
_RULE = {
    "action": str,
    "onPodConditions": [{"type": str, "status": str}],
    "onExitCodes": {"containerName": str, "operator": str, "values": [_INT]},
}
_JOB = {
    **dict.fromkeys(_COUNTS, object),  # looked at one by one, when the Job is validated
    "completionMode": str,
    "suspend": bool,
    "manualSelector": bool,
    "backoffLimitPerIndex": _INT,
    "maxFailedIndexes": _INT,
    "selector": {"matchLabels": _TEXTS},
    "podFailurePolicy": {"rules": [_RULE]},
    "template": {"metadata": {"labels": dict, "annotations": dict}, "spec": _POD},
}
_CONDITION = {
    "type!": str,
    "status!": str,
    "reason": str,
    "message": str,
    "lastTransitionTime": datetime,
}
_CONTAINER_STATUS = {
    "name!": str,
    "ready": bool,
    "restartCount": _INT,
    "state": {
        "waiting": {"reason": str},
        "running": {"startedAt": datetime},
        "terminated": {
            "exitCode": _INT,
            "reason": str,
            "startedAt": datetime,
            "finishedAt": datetime,
        },
    },
}
_POD_STATUS = {
    "phase": str,
    "reason": str,
    "startTime": datetime,
    "conditions": [_CONDITION],
    "containerStatuses": [_CONTAINER_STATUS],
    "resourceClaimStatuses": [{"name!": str, "resourceClaimName": str}],
}
_REQUEST = {
    "name!": str,
    "exactly": {
        "deviceClassName": str,
        "count": _INT,
        "selectors": [{"cel!": {"expression!": str}}],
    },
}
_CLAIM = {"devices!": {"requests": [_REQUEST]}}
_DEVICE = {"name!": str, "attributes!": {"uuid!": {"string!": str}}}
_JOB_STATUS = {
    **dict.fromkeys(("active", "ready", "succeeded", "failed", "terminating"), _INT),
    "completedIndexes": str,
    "failedIndexes": str,
    "startTime": datetime,
    "completionTime": datetime,
    "conditions": [_CONDITION],
}
_NODE_STATUS = {
    "capacity": dict,
    "allocatable": dict,
    "conditions": [{"type": str, "status": str}],
    "addresses": [dict],
}
_OF_KIND: dict[str, Obj] = {
    PODS.id: {"spec": _POD, "status": _POD_STATUS},
    JOBS.id: {"spec": _JOB, "status": _JOB_STATUS},
    NODES.id: {
        "spec": {"unschedulable": bool, "taints": [{"key": str, "value": str, "effect": str}]},
        "status": _NODE_STATUS,
    },
    SERVICES.id: {"spec": {"clusterIP": str, "selector": _TEXTS}},
    SECRETS.id: {"type": str, "data": _TEXTS, "stringData": _TEXTS},
    CLAIMS.id: {"spec!": _CLAIM, "status": {}},
    CLAIM_TEMPLATES.id: {"spec!": {"spec!": _CLAIM}},
    SLICES.id: {"spec!": {"driver!": str, "nodeName": str, "devices!": [_DEVICE]}},
    EVENTS.id: {"involvedObject": dict, "lastTimestamp": str, "source": dict},
}
_NAMES: dict[object, str] = {
    object: "anything",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    datetime: "a time as 2026-01-05T08:00:00Z",
}


def check_shape(resource: Resource, obj: Obj) -> None:
    """Raise 400 for an object whose parts are of the wrong kind, as for one that is no JSON.

    What is null is taken out of `obj`: nothing is said by it.
    """
    if "metadata" in obj:
        _expect(obj["metadata"] is not None, "metadata", "an object")
    _check(obj, {"metadata": _METADATA, **_OF_KIND.get(resource.id, {})}, "")


def _check(value: Any, shape: Any, field: str) -> None:
    if isinstance(shape, dict):
        _expect(isinstance(value, dict), field, "an object")
        for name, part in shape.items():
            _check_part(value, name, part, field)
    elif isinstance(shape, list):
        _expect(isinstance(value, list), field, "a list")
        for item in value:
            _check(item, shape[0], field)
    elif shape is dict:
        _expect(isinstance(value, dict), field, "an object")
    elif isinstance(shape, range) or shape is int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        _expect(is_whole and value in (shape if shape is not int else _LONG), field, _NAMES[int])
    elif shape is datetime:
        _expect(_is_instant(value), field, _NAMES[datetime])
    else:
        _expect(isinstance(value, shape), field, _NAMES[shape])


def _is_instant(value: Any) -> bool:
    try:
        seconds_of(value)
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


def _check_part(value: Obj, name: str, part: Any, field: str) -> None:
    key = name.removesuffix("!")
    for own in [key] if key else list(value):
        below = f"{field}.{own}".lstrip(".")
        if value.get(own) is not None:
            _check(value[own], part, below)
            continue
        _expect(key == name, below, "given")
        value.pop(own, None)


_LONG = range(-(2**63), 2**63)


def _expect(holds: bool, field: str, wanted: str) -> None:  # noqa: FBT001 - what is looked at
    if not holds:
        raise bad_request(f"the manifest cannot be read: {field} must be {wanted}")
