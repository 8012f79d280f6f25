"""The device plugin: which GPUs of a node a pod gets, so that none is given twice."""

import json

from simcluster.objects import Obj, annotations_of, node_of, uid_of
from simcluster.quantity import milli

GPU = "nvidia.com/gpu"
GPUS = "muster.dev/gpus"
WANTED = "muster.dev/devices"
GIVEN = "simcluster.muster.dev/devices"


def gpus_wanted(pod: Obj) -> int:
    """GPUs that all containers of a pod ask for together."""
    return sum(
        milli((container.get("resources") or {}).get("limits", {}).get(GPU, 0)) // 1000
        for container in pod["spec"]["containers"]
    )


def parse_indexes(text: str) -> list[int]:
    """The GPU indexes of a comma separated list; empty when it is none."""
    parts = [part.strip() for part in text.split(",")]
    return [int(part) for part in parts] if all(part.isdecimal() for part in parts) else []


def gpus_of(node: Obj) -> list[Obj]:
    """What a node's annotation says about its GPUs; without one, as many as it can allocate."""
    text = annotations_of(node).get(GPUS)
    if text is not None:
        return list(json.loads(text))
    count = int(node.get("status", {}).get("allocatable", {}).get(GPU, 0))
    return [{"index": index, "healthy": True} for index in range(count)]


class DevicePlugin:
    """Who holds which GPU, by node; its memory is the annotation that each pod carries."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[int, str]] = {}

    def adopt(self, pod: Obj) -> None:
        """Note what a pod was given before."""
        for index in parse_indexes(annotations_of(pod).get(GIVEN, "")):
            self._holders.setdefault(node_of(pod), {})[index] = uid_of(pod)

    def release(self, node: str, uid: str) -> None:
        holders = self._holders.get(node, {})
        for index in [index for index, holder in holders.items() if holder == uid]:
            del holders[index]

    def choose(self, pod: Obj, node: Obj) -> list[int] | None:
        """Free healthy indexes for a pod: those it names if it can have them, else the lowest.

        None when too few are free.
        """
        count = gpus_wanted(pod)
        free = self.free(node)
        named = parse_indexes(annotations_of(pod).get(WANTED, ""))
        if len(set(named)) == count and set(named) <= set(free):
            return sorted(named)
        return free[:count] if len(free) >= count else None

    def hold(self, pod: Obj, indexes: list[int]) -> None:
        holders = self._holders.setdefault(node_of(pod), {})
        holders.update(dict.fromkeys(indexes, uid_of(pod)))

    def free(self, node: Obj) -> list[int]:
        """Healthy whole GPUs that nobody holds, by index, ascending."""
        held = self._holders.get(node["metadata"]["name"], {})
        whole = [g["index"] for g in gpus_of(node) if g.get("healthy", True) and not g.get("mig")]
        return sorted(set(whole) - set(held))
