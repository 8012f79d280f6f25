"""The device plugin: which devices of a node a pod gets, so that none is given twice.

A device is a whole GPU, named by its index as in `5`; or a MIG instance of it, by where that
starts, as in `5@4`; or a share of it, by number, as in `5#2`.
"""

import json
import random
import re
from collections import Counter

from simcluster.objects import Obj, annotations_of, labels_of, node_of, uid_of
from simcluster.quantity import milli
from topology.catalog.boards import MIG_PREFIX, mig_resource

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
REPLICAS = "nvidia.com/gpu.replicas"
STRATEGY = "nvidia.com/mig.strategy"
GPUS = "muster.dev/gpus"
WANTED = "muster.dev/devices"
GIVEN = "simcluster.muster.dev/devices"
TOLD = "muster.dev/devices-given"  # by the agent of the pod's node
_DEVICE = re.compile(r"(\d+)(?:([@#])(\d+))?")


def devices_wanted(pod: Obj) -> Counter[str]:
    """How many devices all containers of a pod ask for together, by resource."""
    wanted: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource, amount in limits.items():
            if is_device(resource) and milli(amount):
                wanted[resource] += milli(amount) // 1000
    return wanted


def is_device(resource: str) -> bool:
    return resource in {GPU, SHARED} or resource.startswith(MIG_PREFIX)


def parse_devices(text: str) -> list[str]:
    """The devices of a comma separated list; empty when it is none."""
    parts = [part.strip() for part in text.split(",")]
    return parts if all(_DEVICE.fullmatch(part) for part in parts) else []


def given_boards(pod: Obj) -> set[int]:
    """Indexes of the GPUs that a pod was given devices of."""
    given = parse_devices(annotations_of(pod).get(GIVEN, ""))
    return {int(re.split("[@#]", device)[0]) for device in given}


def gpus_of(node: Obj) -> list[Obj]:
    """What a node's annotation says about its GPUs; without one, as many as it can allocate."""
    text = annotations_of(node).get(GPUS)
    if text is not None:
        return list(json.loads(text))
    count = int(node.get("status", {}).get("allocatable", {}).get(GPU, 0))
    return [{"index": index, "healthy": True} for index in range(count)]


def devices_of(node: Obj) -> dict[str, str]:
    """The resource of each healthy device of a node, in the order of their GPUs."""
    labels = labels_of(node)
    replicas = int(labels.get(REPLICAS, "1"))
    shared = SHARED if int(node["status"]["allocatable"].get(SHARED, "0")) else GPU
    found: dict[str, str] = {}
    for gpu in gpus_of(node):
        index = gpu["index"]
        if not gpu.get("healthy", True):
            continue
        if gpu.get("mig"):
            for told in gpu.get("slices") or ():
                profile, _, start = told.partition("@")
                is_called_gpu = labels.get(STRATEGY) == "single"
                found[f"{index}@{start}"] = GPU if is_called_gpu else mig_resource(profile)
        elif replicas > 1:
            found |= {f"{index}#{number}": shared for number in range(replicas)}
        else:
            found[str(index)] = GPU
    return found


class DevicePlugin:
    """Who holds which device, by node; its memory is the annotation that each pod carries."""

    def __init__(self, chance: random.Random | None = None) -> None:
        """chance: what it draws its own choice from; without it, it does as it is told."""
        self._chance = chance
        self._holders: dict[str, dict[str, str]] = {}

    def adopt(self, pod: Obj) -> None:
        """Note what a pod was given before."""
        for device in parse_devices(annotations_of(pod).get(GIVEN, "")):
            self._holders.setdefault(node_of(pod), {})[device] = uid_of(pod)

    def release(self, node: str, uid: str) -> None:
        holders = self._holders.get(node, {})
        for device in [device for device, holder in holders.items() if holder == uid]:
            del holders[device]

    def choose(self, pod: Obj, node: Obj) -> list[str] | None:
        """Free healthy devices for a pod: those it names if it can have them, else the lowest.

        One that chooses by itself asks for no names. None when too few are free.
        """
        wanted, free = devices_wanted(pod), self.free(node)
        if self._chance is not None:
            return _drawn(wanted, free, self._chance)
        named = set(parse_devices(annotations_of(pod).get(WANTED, "")))
        if named <= free.keys() and Counter(free[device] for device in named) == wanted:
            return [device for device in free if device in named]
        chosen = []
        for resource, count in wanted.items():
            own = [device for device, kind in free.items() if kind == resource][:count]
            if len(own) < count:
                return None
            chosen += own
        return chosen

    def hold(self, pod: Obj, devices: list[str]) -> None:
        holders = self._holders.setdefault(node_of(pod), {})
        holders.update(dict.fromkeys(devices, uid_of(pod)))

    def free(self, node: Obj) -> dict[str, str]:
        """The resource of each healthy device that nobody holds, in the order of their GPUs."""
        held = self._holders.get(node["metadata"]["name"], {})
        return {device: kind for device, kind in devices_of(node).items() if device not in held}


def _drawn(wanted: Counter[str], free: dict[str, str], chance: random.Random) -> list[str] | None:
    chosen: set[str] = set()
    for resource, count in wanted.items():
        own = [device for device, kind in free.items() if kind == resource]
        if len(own) < count:
            return None
        chosen.update(chance.sample(own, count))
    return [device for device in free if device in chosen]
