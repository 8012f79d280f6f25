"""GPUs by claims (DRA, resource.k8s.io/v1): how exact devices are asked for, and read back.

All pods of a Kubernetes Job are made alike, so their template can name no claim of one member. It
names a claim template that nothing fulfils. Before a gate is opened, its pod is given a claim of
its own with the UUIDs of the plan: the pod controls it, so it goes with the pod.
"""

from topology.kube import names, quantities
from topology.kube.values import (
    Claimable,
    ClaimablesSeen,
    ClaimedSeen,
    GangSpec,
    MemberClaim,
    MemberRelease,
)
from topology.kube.wire import Obj

API = "resource.k8s.io/v1"
CLAIMS_PATH = f"/apis/{API}/resourceclaims"
SLICES_PATH = f"/apis/{API}/resourceslices"
_NOTHING = "false"  # what lets no device through


def path_of(namespace: str, plural: str) -> str:
    return f"/apis/{API}/namespaces/{namespace}/{plural}"


def placeholder(spec: GangSpec, *, owner: str) -> Obj:
    """The claim template that a gang's pods name. owner: the uid of its Job."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": spec.key.name, "uid": owner}
    metadata = {
        "name": spec.key.name,
        "namespace": spec.namespace,
        "labels": {**spec.labels, names.JOB: spec.job, names.GROUP: spec.group},
        "ownerReferences": [job],
    }
    wanted = _wanted(spec.gpus_per_member, _NOTHING)
    return _object("ResourceClaimTemplate", metadata, {"spec": wanted})


def claim_name(release: MemberRelease) -> str:
    return f"{release.pod_name}-{names.CLAIM}"


def claim_of(release: MemberRelease, claim: MemberClaim) -> Obj:
    """The claim of one member for the devices of the plan."""
    pod = {"apiVersion": "v1", "kind": "Pod", "name": release.pod_name, "uid": release.pod_uid}
    metadata = {
        "name": claim_name(release),
        "namespace": release.namespace,
        "labels": {names.JOB: claim.job, names.GROUP: claim.group},
        "annotations": {names.ATTEMPT: str(release.attempt), names.MEMBER_RANK: str(claim.rank)},
        "ownerReferences": [{**pod, "controller": True}],
    }
    listed = ", ".join(f"'{uuid}'" for uuid in sorted(claim.uuids))
    one_of_them = f"device.attributes['{names.DRA_DRIVER}'].uuid in [{listed}]"
    return _object("ResourceClaim", metadata, _wanted(len(claim.uuids), one_of_them))


def pointed(release: MemberRelease) -> list[Obj]:
    """JSON patch of a pod's status: its claim is the one that was made for it."""
    made = [{"name": names.CLAIM, "resourceClaimName": claim_name(release)}]
    return [
        {"op": "test", "path": "/metadata/uid", "value": release.pod_uid},
        {"op": "add", "path": "/status/resourceClaimStatuses", "value": made},
    ]


def is_provided(pod: Obj) -> bool:
    """Whether the cluster has made the pod a claim, or we have."""
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    return any(own.get("resourceClaimName") for own in made)


def asks_by_claim(job: Obj) -> bool:
    """Whether the pods of a Job of ours are given their GPUs by claims."""
    return bool(job["spec"]["template"]["spec"].get("resourceClaims"))


def claimed_seen(obj: Obj, *, gone: bool = False) -> ClaimedSeen | None:
    """What a claim of ours was given; None of any other, and of one that holds nothing."""
    meta = obj["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    attempt, rank = notes.get(names.ATTEMPT, ""), notes.get(names.MEMBER_RANK, "")
    allocation = (obj.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    if gone or not results or not attempt.isdecimal() or not rank.isdecimal():
        return None
    own = [result for result in results if result["driver"] == names.DRA_DRIVER]
    return ClaimedSeen(
        namespace=meta.get("namespace", ""),
        job=labels.get(names.JOB, ""),
        group=labels.get(names.GROUP, ""),
        attempt=int(attempt),
        rank=int(rank),
        devices=tuple((result["pool"], result["device"]) for result in own),
    )


def claimables_seen(obj: Obj, *, gone: bool = False) -> ClaimablesSeen | None:
    """The whole GPUs of a ResourceSlice of NVIDIA's driver; None of any other."""
    spec = obj["spec"]
    if spec.get("driver") != names.DRA_DRIVER or not spec.get("nodeName"):
        return None
    devices = [_claimable(device) for device in spec.get("devices") or []]
    return ClaimablesSeen(
        name=obj["metadata"]["name"],
        node=spec["nodeName"],
        gpus=tuple(device for device in devices if device is not None),
        gone=gone,
    )


def _claimable(device: Obj) -> Claimable | None:
    said = {name: own.get("string", "") for name, own in (device.get("attributes") or {}).items()}
    if said.get("type") != "gpu" or not said.get("uuid"):
        return None
    memory = ((device.get("capacity") or {}).get("memory") or {}).get("value")
    return Claimable(
        device=device["name"],
        uuid=said["uuid"],
        model=said.get("productName", ""),
        memory_mib=None if memory is None else quantities.mebibytes(memory),
    )


def _wanted(count: int, expression: str) -> Obj:
    exactly = {
        "deviceClassName": names.DRA_DRIVER,
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {"devices": {"requests": [{"name": names.CLAIM, "exactly": exactly}]}}


def _object(kind: str, metadata: Obj, spec: Obj) -> Obj:
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
