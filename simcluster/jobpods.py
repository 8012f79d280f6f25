"""The pods that a Job makes: names, indexes, labels; and how completed indexes are written."""

import re

from simcluster.objects import JOB_FINALIZER, Obj, annotations_of, clone, name_of, namespace_of
from simcluster.world import World

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"


def is_indexed(job: Obj) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Obj) -> int:
    """The completion index of a pod, or -1."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def index_failures(pod: Obj) -> int:
    """How often the pod's index has failed before it."""
    text = annotations_of(pod).get(INDEX_FAILURES, "0")
    return int(text) if text.isdecimal() else 0


def make_pod(world: World, job: Obj, *, index: int | None, failures: int = 0) -> Obj:
    """A new pod from the Job's template, not yet admitted."""
    template = clone(job["spec"]["template"])
    base = name_of(job) if index is None else f"{name_of(job)}-{index}"
    metadata = {
        **template.get("metadata", {}),
        "name": f"{base[:57]}-{world.suffix()}",
        "generateName": f"{base[:57]}-",
        "namespace": namespace_of(job),
        "finalizers": [JOB_FINALIZER],
        "ownerReferences": [_owner(job)],
    }
    metadata.pop("creationTimestamp", None)
    spec = template["spec"]
    if index is not None:
        _give_index(metadata, spec, job=job, index=index)
        if job["spec"].get("backoffLimitPerIndex") is not None:
            metadata["annotations"][INDEX_FAILURES] = str(failures)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _owner(job: Obj) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name_of(job),
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _give_index(metadata: Obj, spec: Obj, *, job: Obj, index: int) -> None:
    """Tell a pod its index as label, annotation, host name and environment."""
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index)}
    metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    spec["hostname"] = f"{name_of(job)}-{index}"
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for container in spec["containers"] + (spec.get("initContainers") or []):
        names = {item["name"] for item in container.get("env") or []}
        if variable["name"] not in names:
            container["env"] = [*(container.get("env") or []), clone(variable)]


def parse_ranges(text: str) -> set[int]:
    """The indexes of "0-2,5"."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def are_ranges(text: str, limit: int) -> bool:
    """Whether `text` is as `ranges` writes them, of indexes below `limit`."""
    if not text:
        return True
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    return all(part is not None and int(part[2] or part[1]) < limit for part in parts)


def ranges(indexes: set[int]) -> str:
    """{0, 1, 2, 5} as "0-2,5"; two neighbours are written "0,1", as Kubernetes does."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(_range(part) for part in parts)


def _range(part: list[int]) -> str:
    if len(part) > 2:  # noqa: PLR2004 - a range of two is written as two numbers
        return f"{part[0]}-{part[-1]}"
    return ",".join(map(str, part))
