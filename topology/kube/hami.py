"""What HAMi writes onto nodes and pods, read: the GPUs that it hands out, and to whom.

Sources: Project-HAMi/HAMi, pkg/device/devices.go, how devices are written: of a node as JSON,
formerly as "id,count,mem,cores,type,numa,health,index,mode:" one after the other; of a pod as
"uuid,type,mem,cores:" for each GPU and ";" after each container. pkg/device/nvidia/device.go has
the annotations and modes. Its device plugin sets the phase to success once a pod has its devices.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from topology.kube import names
from topology.kube.wire import Obj

CORE: Final = "hami-core"  # the mode in which GPUs are given out by amounts
GIVEN: Final = "success"
_FIELDS: Final = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
_FEWEST_FIELDS: Final = 7
_TRUE: Final = ("true", "1", "t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One GPU that HAMi hands out. model: as GPU feature discovery would label it.

    count: how many members it takes at most. by_amounts: whether parts of it are, not slices.
    """

    uuid: str
    index: int
    count: int
    memory_mib: int
    model: str
    numa: int
    healthy: bool
    by_amounts: bool


def registered_gpus(node: Obj) -> tuple[Registered, ...]:
    """By index; none where HAMi is not, or of a text that is torn."""
    text = (node["metadata"].get("annotations") or {}).get(names.HAMI_REGISTER) or ""
    try:
        said = json.loads(text) if text.startswith("[") else list(_split(text))
        found = [_registered(own, at) for at, own in enumerate(said)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def _split(text: str) -> Iterator[dict[str, str]]:
    for part in text.split(":"):
        values = part.split(",")
        if len(values) >= _FEWEST_FIELDS:
            yield dict(zip(_FIELDS, values, strict=False))


def _registered(said: dict[str, Any], at: int) -> Registered:
    """at: its place in the list. What is nothing or no is left out of the JSON."""
    is_text = isinstance(said.get("health"), str)
    health = said.get("health", False)
    return Registered(
        uuid=str(said["id"]),
        index=int(said.get("index", at if is_text else 0)),
        count=int(said.get("count", 0)),
        memory_mib=int(said.get("devmem", 0)),
        model=str(said.get("type", "")).removeprefix("NVIDIA-").replace(" ", "-"),
        numa=int(said.get("numa", 0)),
        healthy=str(health).lower() in _TRUE,
        by_amounts=said.get("mode", CORE) == CORE,
    )


def given_gpus(pod: Obj) -> tuple[str, ...]:
    """UUIDs of the GPUs that a pod was given parts of, each once; none until it has them."""
    notes = pod["metadata"].get("annotations") or {}
    if notes.get(names.HAMI_PHASE) != GIVEN:
        return ()
    said = notes.get(names.HAMI_ALLOCATED, "").replace(";", ":").split(":")
    return tuple(dict.fromkeys(uuid for uuid in (own.partition(",")[0] for own in said) if uuid))
