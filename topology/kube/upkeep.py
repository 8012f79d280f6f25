"""Objects brought to what they should be, and found out where they are not.

Server-side apply does both: for real, and as a dry run whose answer differs from what is there by
just what somebody has changed of ours. What others add beside it is theirs.
"""

from collections.abc import Sequence

from topology.kube import names
from topology.kube.gateway import RefusedByCluster
from topology.kube.values import Drift
from topology.kube.wire import APPLY_PATCH, ApiError, Obj, Request, Wire

_PLURALS = {
    "Namespace": "namespaces",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "NetworkPolicy": "networkpolicies",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "PriorityClass": "priorityclasses",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
_NOT_FOUND = 404


def apply_all(wire: Wire, objects: Sequence[Obj]) -> None:
    """Bring each object to what it should be, in this order. RefusedByCluster says which not."""
    for obj in objects:
        _apply(wire, obj)


def drifts(wire: Wire, objects: Sequence[Obj]) -> tuple[Drift, ...]:
    """What is not as it should be. RefusedByCluster when the cluster does not let us look."""
    found = (_drift(wire, obj) for obj in objects)
    return tuple(drift for drift in found if drift is not None)


def path_of(obj: Obj) -> str:
    """Where an object is served; KeyError for a kind that we never keep."""
    version, metadata = obj["apiVersion"], obj["metadata"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{base}{inside}/{_PLURALS[obj['kind']]}/{metadata['name']}"


def _drift(wire: Wire, obj: Obj) -> Drift | None:
    kind, name = obj["kind"], obj["metadata"]["name"]
    try:
        there = wire.ask(Request(method="GET", path=path_of(obj)))
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return Drift(kind=kind, name=name)
        raise _refusal(obj, error) from error
    wanted = _apply(wire, obj, dryRun="All")
    fields = tuple(_differences(_bare(there), _bare(wanted), at=""))
    return Drift(kind=kind, name=name, fields=fields) if fields else None


def applying(path: str, obj: Obj, **query: str) -> Request:
    """The call that brings one object to what it should be."""
    how = {"fieldManager": names.US, "force": "true", **query}
    return Request(method="PATCH", path=path, query=how, body=obj, kind=APPLY_PATCH)


def _apply(wire: Wire, obj: Obj, **query: str) -> Obj:
    try:
        return wire.ask(applying(path_of(obj), obj, **query))
    except ApiError as error:
        raise _refusal(obj, error) from error


def _refusal(obj: Obj, error: ApiError) -> RefusedByCluster:
    return RefusedByCluster(f"{obj['kind']} {obj['metadata']['name']}: {error}")


def _bare(obj: Obj) -> Obj:
    """Without what the server writes into it."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _THE_SERVERS}
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata}


def _differences(there: Obj, wanted: Obj, *, at: str) -> list[str]:
    """The fields that differ, as deep as there are objects: "spec.hard.requests.nvidia.com/gpu"."""
    found: list[str] = []
    for key in sorted({*there, *wanted}):
        old, new = there.get(key), wanted.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, at=f"{at}{key}.")
        elif old != new:
            found.append(f"{at}{key}")
    return found
