"""HAMi in small: which GPU of a node a pod has a part of, and how that is written down.

By Project-HAMi/HAMi: pkg/device/nvidia/device.go (names, modes, what fits), pkg/device/devices.go
(how devices are written) and its device plugin. Of its policies only its usual ones: nodes by their
load, and of the GPUs of a node that with the most free memory first. Its webhook is not played:
pods that name no scheduler are not for it.
"""

import json
import random
import re
from dataclasses import dataclass

from simcluster.objects import Obj, Stored, annotations_of, is_finished
from simcluster.quantity import milli
from simcluster.resources import NODES, PODS
from simcluster.world import World

SCHEDULER = "hami-scheduler"
REGISTER = "hami.io/node-nvidia-register"
ALLOCATED, TO_ALLOCATE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
NODE, TIME, PHASE = "hami.io/vgpu-node", "hami.io/vgpu-time", "hami.io/bind-phase"
USE_UUID = "nvidia.com/use-gpuuuid"
GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
# Told to the scheduler by its extender, which counts them itself.
IGNORED = frozenset({MEMORY, "nvidia.com/gpumem-percentage", CORES})
_EXCLUSIVE = 100  # percent of its processors: nobody beside it
_GIVEN = re.compile(r"([^,:;]+),[^,:;]*,(\d+),(\d+):")


@dataclass(slots=True)
class Card:
    """A GPU that HAMi hands out, and what is left of it."""

    uuid: str
    index: int
    kind: str
    seats: int
    memory: int
    cores: int
    most_memory: int
    is_exclusive: bool = False

    def take(self, memory: int, cores: int) -> None:
        self.seats -= 1
        self.memory -= memory
        self.cores -= cores
        self.is_exclusive |= cores == _EXCLUSIVE

    def fits(self, memory: int, cores: int, *, is_unused: bool) -> bool:
        alone = cores == _EXCLUSIVE and not is_unused
        has_room = self.seats > 0 and self.memory >= memory and self.cores >= cores
        return has_room and not alone and not self.is_exclusive


def is_for_hami(pod: Obj) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER)


def is_by_hami(node: Obj) -> bool:
    """Whether HAMi hands out a node's GPUs."""
    return REGISTER in annotations_of(node)


def register_text(gpus: list[Obj], *, seats: int) -> str:
    """What its device plugin says of a node's GPUs, each taking `seats` members at most."""
    return json.dumps(
        [
            {
                "id": gpu["uuid"],
                "index": gpu["index"],
                "count": seats,
                "devmem": gpu["memory_mib"],
                "devcore": 100,
                "type": f"NVIDIA-{gpu['model']}",
                "numa": gpu["numa"],
                "mode": "hami-core",
                "health": gpu["healthy"],
            }
            for gpu in gpus
        ]
    )


class Hami:
    """What the scheduler and the kubelets ask."""

    def __init__(self, world: World) -> None:
        self._world = world
        options = world.options
        # As the device plugin where it heeds no wishes, it heeds no UUIDs.
        self._chance = random.Random(options.seed or None) if options.chooses else None  # noqa: S311 - no secret

    def objection(self, pod: Obj, node: str) -> str:
        """Why a pod of its scheduler may not go to a node; "" if it may, or is none of its pods."""
        is_short = is_for_hami(pod) and self.plan(pod, node) is None
        return "node(s) had no GPU with as much left" if is_short else ""

    def plan(self, pod: Obj, node: str) -> str | None:
        """What a pod would be given on a node, as it is written down; None if that is too little.

        One that chooses by itself asks for no UUIDs.
        """
        cards = self._cards(node)
        unused = {card.uuid for card in cards if card.memory == card.most_memory}
        named = annotations_of(pod).get(USE_UUID)
        text = ""
        for container in pod["spec"]["containers"]:
            limits = (container.get("resources") or {}).get("limits") or {}
            count, memory, cores = (_whole(limits, name) for name in (GPU, MEMORY, CORES))
            fitting = [
                card
                for card in cards
                if card.fits(memory or card.most_memory, cores, is_unused=card.uuid in unused)
            ]
            if self._chance is not None:
                self._chance.shuffle(fitting)
            else:
                fitting.sort(key=lambda card: (-card.memory, card.index))
                if named is not None:
                    fitting = [card for card in fitting if card.uuid in named.split(",")]
            if len(fitting) < count:
                return None
            for card in fitting[:count]:
                own = memory or card.most_memory
                card.take(own, cores)
                text += f"{card.uuid},{card.kind},{own},{cores}:"
            text += ";"
        return text

    def allocate(self, pod: Stored, node: str) -> Stored:
        """Write down what a pod is to be given, before it is bound."""
        text, at = self.plan(pod, node) or "", str(int(self._world.clock.now()))
        said = {ALLOCATED: text, TO_ALLOCATE: text, NODE: node, TIME: at, PHASE: "allocating"}

        def note(new: Obj) -> None:
            new["metadata"].setdefault("annotations", {}).update(said)

        return self._world.store.change(PODS, pod, note)

    def given(self, pod: Obj, node: Obj) -> list[str] | None:
        """Indexes of the GPUs that its node gives a pod parts of; None where HAMi said nothing."""
        indexes = {own["id"]: own.get("index", 0) for own in _registered(node)}
        uuids = [uuid for uuid, _memory, _cores in _parts(pod)]
        found = [str(indexes[uuid]) for uuid in dict.fromkeys(uuids) if uuid in indexes]
        return found or None

    def _cards(self, node: str) -> list[Card]:
        obj = self._world.store.get(NODES, "", node)
        cards = {
            own["id"]: Card(
                uuid=own["id"],
                index=own.get("index", 0),
                kind="NVIDIA",
                seats=own["count"],
                memory=own["devmem"],
                cores=own["devcore"],
                most_memory=own["devmem"],
            )
            for own in (_registered(obj) if obj else [])
            if own.get("health")
        }
        for pod in self._world.store.pods_on(node):
            for uuid, memory, cores in [] if is_finished(pod) else _parts(pod):
                if uuid in cards:
                    cards[uuid].take(memory, cores)
        return list(cards.values())


def note_given(notes: dict[str, str]) -> None:
    """What the device plugin notes once a container has its devices."""
    notes |= {PHASE: "success", TO_ALLOCATE: ";"}


def _registered(node: Obj) -> list[Obj]:
    return list(json.loads(annotations_of(node).get(REGISTER) or "[]"))


def _parts(pod: Obj) -> list[tuple[str, int, int]]:
    """UUID, memory and percent of each GPU that a pod was allocated parts of."""
    found = _GIVEN.findall(annotations_of(pod).get(ALLOCATED, ""))
    return [(uuid, int(memory), int(cores)) for uuid, memory, cores in found]


def _whole(limits: Obj, resource: str) -> int:
    return milli(limits.get(resource, "0")) // 1000
