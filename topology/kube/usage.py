"""What a pod takes of its node, counted as Kubernetes counts it."""

from collections.abc import Callable
from typing import Any

from topology.kube import names, quantities
from topology.kube.values import Use
from topology.kube.wire import Obj

# By fields of the API: the pods that are on a node and have not ended.
TAKING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ENDED = frozenset({"Succeeded", "Failed"})


def use_of(pod: Obj, *, gone: bool = False) -> Use | None:
    """What `pod` takes of its node; None if it is on none, has ended or is gone."""
    spec, meta = pod["spec"], pod["metadata"]
    if gone or not spec.get("nodeName") or pod.get("status", {}).get("phase") in _ENDED:
        return None
    scheduler = spec.get("schedulerName") or names.USUAL_SCHEDULER
    return Use(
        cpu_milli=_need(spec, "cpu", quantities.milli),
        memory_mib=_need(spec, "memory", quantities.mebibytes),
        gpus=_need(spec, names.GPU, quantities.whole),
        name=f"{meta.get('namespace', '')}/{meta['name']}",
        scheduler="" if scheduler == names.USUAL_SCHEDULER else scheduler,
    )


def _need(spec: Obj, resource: str, units: Callable[[str], int]) -> int:
    """The most that is needed at once: by what runs together, or by one that runs before that."""
    beside, before = 0, 0
    for own in spec.get("initContainers") or []:
        asked = _asked(own, resource, units)
        before = max(before, beside + asked)
        beside += asked if own.get("restartPolicy") == "Always" else 0
    together = sum(_asked(own, resource, units) for own in spec.get("containers") or [])
    need = max(together + beside, before)
    said = (spec.get("resources") or {}).get("requests") or {}
    whole_pod = units(said[resource]) if resource in said else need
    return whole_pod + units((spec.get("overhead") or {}).get(resource, "0"))


def _asked(container: dict[str, Any], resource: str, units: Callable[[str], int]) -> int:
    resources = container.get("resources") or {}
    asked = resources.get("requests") or {}
    return units(asked.get(resource) or (resources.get("limits") or {}).get(resource) or "0")
