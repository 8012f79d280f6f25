"""How a node's GPUs are cut up and shared, and what its device plugin offers for it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from simcluster.devices import GPU, GPUS, gpus_of
from simcluster.objects import Obj, annotations_of, labels_of
from topology.catalog.boards import ModeChange, boards
from topology.catalog.gpus import GpuModel, find_model
from topology.catalog.mig import find_layout, profiles

PRODUCT = "nvidia.com/gpu.product"
STRATEGY = "nvidia.com/mig.strategy"
VENDOR = "nvidia.com/"

# The instances on one GPU as its annotation has them, "3g.20gb@4"; None where MIG is off.
Cut = tuple[str, ...] | None


class ConfigError(ValueError):
    """A configuration that the MIG manager cannot apply."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """What the device plugin was told. replicas: by resource name."""

    strategy: str = "mixed"
    sharing: str = "none"
    rename: bool = False
    replicas: tuple[tuple[str, int], ...] = ()


def model_of(node: Obj) -> GpuModel | None:
    """What the GPUs of a node are, by the product that it had before it was cut or shared."""
    return find_model(labels_of(node).get(PRODUCT, ""))


def cuts_of(node: Obj) -> tuple[Cut, ...]:
    return tuple(tuple(gpu.get("slices", ())) if gpu.get("mig") else None for gpu in gpus_of(node))


def cuts_wanted(node: Obj, text: str, name: str) -> tuple[Cut, ...]:
    """What mig-parted makes of a node by the configuration `name` of its file `text`."""
    model, cuts = model_of(node), list(cuts_of(node))
    entries = ((yaml.safe_load(text) or {}).get("mig-configs") or {}).get(name)
    if not entries:
        raise ConfigError(f"there is no configuration {name}")
    for entry in entries:
        chosen = range(len(cuts)) if entry["devices"] == "all" else entry["devices"]
        for gpu in chosen:
            if gpu >= len(cuts):
                raise ConfigError(f"there is no GPU {gpu}")
            if entry["mig-enabled"]:
                cuts[gpu] = _cut(model, entry["mig-devices"])
            elif model is not None and model.has_mig:
                cuts[gpu] = None
    return tuple(cuts)


def _cut(model: GpuModel | None, instances: dict[str, int]) -> Cut:
    names = [name for name, count in instances.items() for _ in range(count)]
    layout = None if model is None else find_layout(model, names)
    if layout is None:
        raise ConfigError(f"the board cannot hold {instances}")
    return tuple(map(str, layout))


def changed_gpus(node: Obj, wanted: Sequence[Cut]) -> frozenset[int]:
    """The GPUs that nobody may be using while they change: all, where one has to be reset."""
    before, model = cuts_of(node), model_of(node)
    changed = [gpu for gpu, cut in enumerate(wanted) if cut != before[gpu]]
    toggled = any((before[gpu] is None) != (wanted[gpu] is None) for gpu in changed)
    board = boards().get(model.key) if model else None
    if toggled and board is not None and board.mode_change == ModeChange.RESETS_GPU:
        return frozenset(range(len(wanted)))
    return frozenset(changed)


def read_plugin(text: str) -> PluginConfig:
    read: dict[str, Any] = yaml.safe_load(text) or {}
    sharing = read.get("sharing") or {}
    key = next((key for key in ("timeSlicing", "mps") if sharing.get(key)), "")
    own = sharing.get(key) or {}
    return PluginConfig(
        strategy=(read.get("flags") or {}).get("migStrategy", "none"),
        sharing={"timeSlicing": "time-slicing", "mps": "mps"}.get(key, "none"),
        rename=bool(own.get("renameByDefault")),
        replicas=tuple((r["name"], r["replicas"]) for r in own.get("resources", [])),
    )


def offers(node: Obj, config: PluginConfig) -> dict[str, str]:
    """What the device plugin reports to the kubelet, by resource name."""
    known = profiles(model) if (model := model_of(node)) else {}
    counts: Counter[str] = Counter()
    for gpu, cut in zip(gpus_of(node), cuts_of(node), strict=True):
        if not gpu.get("healthy", True):
            continue
        if cut is None or config.strategy == "none":
            counts[GPU] += 1
        elif config.strategy == "single":
            counts[GPU] += len(cut)
        else:
            counts.update(known[own.partition("@")[0]].resource_name for own in cut)
    replicas = dict(config.replicas)
    ending = ".shared" if config.rename else ""
    shared = {
        name + ending if name in replicas else name: count * replicas.get(name, 1)
        for name, count in counts.items()
    }
    return {name: str(count) for name, count in shared.items()}


def put_cuts(node: Obj, cuts: Sequence[Cut]) -> None:
    """Write into a draft of a node how its GPUs are cut, as the agent on the machine says it."""
    gpus = [
        {key: value for key, value in gpu.items() if key not in {"mig", "slices"}}
        | ({} if cut is None else {"mig": True, "slices": list(cut)})
        for gpu, cut in zip(gpus_of(node), cuts, strict=True)
    ]
    node["metadata"]["annotations"][GPUS] = json.dumps(gpus, separators=(",", ":"))


def put_offers(node: Obj, offered: dict[str, str]) -> None:
    """Write into a draft of a node what its device plugin offers; what it no longer does is 0."""
    for part in ("capacity", "allocatable"):
        room = node["status"][part]
        names = {name for name in room if name.startswith(VENDOR)} | offered.keys()
        room.update({name: offered.get(name, "0") for name in names})


def put_discovered(node: Obj, config: PluginConfig) -> None:
    """Write into a draft of a node the labels of GPU feature discovery that change with it."""
    model = model_of(node)
    labels = node["metadata"]["labels"]
    replicas = next((count for name, count in config.replicas if name == GPU), 1)
    labels[STRATEGY] = config.strategy
    labels["nvidia.com/gpu.sharing-strategy"] = config.sharing
    labels["nvidia.com/gpu.replicas"] = str(replicas)
    labels["nvidia.com/mig.capable"] = "true" if model and model.has_mig else "false"


def has_gpus(node: Obj) -> bool:
    return GPUS in annotations_of(node) and PRODUCT in labels_of(node)
