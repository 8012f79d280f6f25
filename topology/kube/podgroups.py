"""Gangs of Kubernetes' own (scheduling.k8s.io/v1beta1, PodGroup): a second wall behind our gate.

One group is over all pods of a gang, whichever of its Jobs makes them. A Job's template cannot be
changed, so the group has one name for all attempts, and each attempt says anew how many of its
pods are bound together or not at all. The Jobs own it: it goes with the last of them.
"""

from topology.kube import names
from topology.kube.values import PodGroupSpec
from topology.kube.wire import Obj

API = "scheduling.k8s.io/v1beta1"
PLURAL = "podgroups"


def name_of(job: str) -> str:
    """Of the group of a job's gang. job: its public id."""
    return f"{names.POD_GROUPS}{job}"


def path_of(namespace: str, job: str) -> str:
    return f"/apis/{API}/namespaces/{namespace}/{PLURAL}/{name_of(job)}"


def group(spec: PodGroupSpec) -> Obj:
    """Its priority is that of its pods, or the cluster's scheduler binds none of them."""
    owners = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        for name, uid in spec.owners.items()
    ]
    metadata = {
        "name": name_of(spec.job),
        "namespace": spec.namespace,
        "labels": {**spec.labels, names.JOB: spec.job},
        "annotations": {names.ATTEMPT: str(spec.attempt)},
        "ownerReferences": owners,
    }
    said: Obj = {"schedulingPolicy": {"gang": {"minCount": spec.least}}}
    if spec.priority_class:
        said["priorityClassName"] = spec.priority_class
    return {"apiVersion": API, "kind": "PodGroup", "metadata": metadata, "spec": said}


def eased() -> list[Obj]:
    """JSON patch after which each further pod is bound by itself."""
    return [{"op": "replace", "path": "/spec/schedulingPolicy/gang/minCount", "value": 1}]


def is_named_by(job: Obj) -> bool:
    """Whether the pods of a Job of ours name the group of their gang."""
    return bool(job["spec"]["template"]["spec"].get("schedulingGroup"))
