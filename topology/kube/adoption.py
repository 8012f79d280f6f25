"""Namespaces that others made: what waits in them, and how one is put under the policies and back.

A namespace belongs to a tenant by its label alone: from then on the admission policies hold there,
and what newly asks for GPUs waits at the gate. What runs is not touched.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from topology.kube import names, quantities
from topology.kube.gateway import NotThere, RefusedByCluster
from topology.kube.manifest import gates_of
from topology.kube.wire import MERGE_PATCH, STRATEGIC_PATCH, ApiError, Obj, Request, Wire, pages

# Of the cluster itself, the GPU Operator and Muster: what runs there is no tenant's, and has to do
# what the policies forbid tenants.
SYSTEM = frozenset(
    {"kube-system", "kube-public", "kube-node-lease", names.OPERATOR_NAMESPACE, names.US}
)
UNPLACED = "spec.nodeName=,status.phase=Pending"
_NOT_OURS = f"!{names.JOB}"
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSeen:
    """What asks for GPUs in a namespace and has none yet, and is not ours.

    kind: "pod" or "job". state: of a pod "waiting" or "held" (at our gate), of a Job "active" or
    "suspended". gpus: of all its pods together.
    """

    namespace: str
    kind: str
    name: str
    state: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSeen:
    """tenant: slug of whose it is by its label; empty for nobody's. kept: made by Muster."""

    name: str
    tenant: str
    kept: bool
    work: tuple[WorkSeen, ...] = ()


def namespaces_of(wire: Wire) -> tuple[NamespaceSeen, ...]:
    """Every namespace but the cluster's own, by name, with what waits in it. ApiError."""
    work: dict[str, list[WorkSeen]] = {}
    for seen in (*_unplaced(wire), *_jobs(wire)):
        work.setdefault(seen.namespace, []).append(seen)
    found = (
        _namespace(obj, work.get(obj["metadata"]["name"], ()))
        for obj in _items(wire, "/api/v1/namespaces")
        if obj["metadata"]["name"] not in SYSTEM
    )
    return tuple(sorted(found, key=lambda seen: seen.name))


def take_namespace(wire: Wire, name: str, *, tenant: str) -> None:
    """Put a namespace under the policies, as one of `tenant`; done already is fine.

    NotThere. RefusedByCluster: also where it is one that Muster made, or another tenant's.
    """
    labels = _labels_of(wire, name)
    if names.KEPT_BY in labels and labels[names.KEPT_BY] == names.US:
        raise RefusedByCluster(f"namespace {name} was made by Muster")
    if labels.get(names.TENANT) == tenant:
        return
    if labels.get(names.TENANT):
        raise RefusedByCluster(f"namespace {name} belongs to tenant {labels[names.TENANT]}")
    _label(wire, name, tenant)


def return_namespace(wire: Wire, name: str, *, tenant: str) -> int:
    """Take the label away and open the gate of what waits at it; how many pods.

    What is opened is placed by the cluster itself. A namespace that is gone, or belongs to another
    tenant by now, is left as it is. RefusedByCluster.
    """
    try:
        labels = _labels_of(wire, name)
    except NotThere:
        return 0
    if labels.get(names.TENANT, tenant) != tenant:
        return 0
    if names.TENANT in labels:
        _label(wire, name, None)
    held = [pod for pod in _pods(wire, name) if names.GATE in gates_of(pod)]
    return sum(_open(wire, pod) for pod in held)


def _namespace(obj: Obj, work: tuple[WorkSeen, ...] | list[WorkSeen]) -> NamespaceSeen:
    labels = obj["metadata"].get("labels") or {}
    return NamespaceSeen(
        name=obj["metadata"]["name"],
        tenant=labels.get(names.TENANT, ""),
        kept=labels.get(names.KEPT_BY) == names.US,
        work=tuple(sorted(work, key=lambda seen: (seen.kind, seen.name))),
    )


def _unplaced(wire: Wire) -> Iterator[WorkSeen]:
    for pod in _items(wire, "/api/v1/pods", selector=_NOT_OURS, fields=UNPLACED):
        gpus = gpus_asked(pod["spec"])
        if gpus:
            state = "held" if names.GATE in gates_of(pod) else "waiting"
            yield _work(pod, "pod", state, gpus)


def _jobs(wire: Wire) -> Iterator[WorkSeen]:
    for job in _items(wire, "/apis/batch/v1/jobs", selector=_NOT_OURS):
        spec = job["spec"]
        gpus = gpus_asked(spec["template"]["spec"]) * int(spec.get("parallelism") or 1)
        if gpus and not _is_over(job):
            yield _work(job, "job", "suspended" if spec.get("suspend") else "active", gpus)


def _work(obj: Obj, kind: str, state: str, gpus: int) -> WorkSeen:
    meta = obj["metadata"]
    return WorkSeen(
        namespace=meta["namespace"], kind=kind, name=meta["name"], state=state, gpus=gpus
    )


def gpus_asked(spec: Obj) -> int:
    """GPUs, or shares of GPUs, that the containers of one pod ask for together."""
    limits = [(own.get("resources") or {}).get("limits") or {} for own in spec["containers"]]
    return sum(
        quantities.whole(count)
        for own in limits
        for resource, count in own.items()
        if resource.startswith(names.VENDOR)
    )


def _is_over(job: Obj) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions)


def _pods(wire: Wire, namespace: str) -> list[Obj]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    try:
        return list(_items(wire, path, selector=_NOT_OURS, fields=UNPLACED))
    except ApiError as error:
        raise RefusedByCluster(str(error)) from error


def _items(wire: Wire, path: str, *, selector: str = "", fields: str = "") -> Iterator[Obj]:
    for page in pages(wire, path, selector=selector, fields=fields):
        yield from page["items"]


def _labels_of(wire: Wire, name: str) -> dict[str, str]:
    try:
        found = wire.ask(Request(method="GET", path=f"/api/v1/namespaces/{name}"))
    except ApiError as error:
        if error.status == _NOT_FOUND:
            raise NotThere(f"there is no namespace {name}") from error
        raise RefusedByCluster(str(error)) from error
    return dict(found["metadata"].get("labels") or {})


def _label(wire: Wire, name: str, tenant: str | None) -> None:
    body = {"metadata": {"labels": {names.TENANT: tenant}}}
    request = Request(
        method="PATCH", path=f"/api/v1/namespaces/{name}", body=body, kind=MERGE_PATCH
    )
    try:
        wire.ask(request)
    except ApiError as error:
        raise RefusedByCluster(str(error)) from error


def _open(wire: Wire, pod: Obj) -> bool:
    """Whether this call took our gate away; other gates stay."""
    meta = pod["metadata"]
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]}}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    try:
        wire.ask(Request(method="PATCH", path=path, body=body, kind=STRATEGIC_PATCH))
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return False
        raise RefusedByCluster(str(error)) from error
    return True
