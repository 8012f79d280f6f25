"""The nodes of a simulated cluster: from "6xH100-SXM:8,2xL40S:8" or a file to Node objects."""

import json
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from simcluster import survey
from simcluster.clock import Clock, rfc3339
from simcluster.devices import GPU, GPUS
from simcluster.errors import UsageError
from simcluster.hami import REGISTER, register_text
from simcluster.objects import Obj
from simcluster.resources import SLICES

PRODUCT, COUNT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory"
POOL_TAINT = {"key": "muster.dev/pool", "value": "gpu", "effect": "NoSchedule"}
NODES_PER_RACK = 4
MOST_NODES, MOST_GPUS = 100_000, 128

_GROUP = re.compile(
    r"(?P<count>[0-9]{1,6})x(?P<model>[A-Za-z]([-A-Za-z0-9.]{0,38}[A-Za-z0-9])?):(?P<gpus>[0-9]{1,6})"
)
_NAMESPACE = uuid.UUID("6d757374-6572-4000-8000-73696d636c75")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A GPU model: its product label, memory, and whether NVLink joins a node's GPUs."""

    product: str
    memory_mib: int
    nvlink: bool = False


MODELS = {
    "B200": Model(product="NVIDIA-B200", memory_mib=183359, nvlink=True),
    "H200-SXM": Model(product="NVIDIA-H200", memory_mib=143771, nvlink=True),
    "H100-SXM": Model(product="NVIDIA-H100-80GB-HBM3", memory_mib=81559, nvlink=True),
    "H100-PCIE": Model(product="NVIDIA-H100-PCIe", memory_mib=81559),
    "A100-80GB": Model(product="NVIDIA-A100-SXM4-80GB", memory_mib=81920, nvlink=True),
    "A100-40GB": Model(product="NVIDIA-A100-SXM4-40GB", memory_mib=40960, nvlink=True),
    "V100-SXM": Model(product="Tesla-V100-SXM2-32GB", memory_mib=32768, nvlink=True),
    "L40S": Model(product="NVIDIA-L40S", memory_mib=46068),
    "L4": Model(product="NVIDIA-L4", memory_mib=23034),
    "A10": Model(product="NVIDIA-A10", memory_mib=23028),
    "T4": Model(product="Tesla-T4", memory_mib=15360),
    "P100": Model(product="Tesla-P100-PCIE-16GB", memory_mib=16384),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node to be. `islands` and `numas` hold one number for each GPU.

    dra: it gives its GPUs by claims, and has no device plugin.
    hami: so many members HAMi lets have parts of each GPU; 0 for a node without it.
    """

    name: str
    model: str = ""
    gpus: int = 0
    cpu: int = 64
    memory_gib: int = 512
    pods: int = 110
    zone: str = "zone-1"
    rack: str = "rack-1"
    fabric: str = "ethernet"
    islands: tuple[int, ...] = ()
    numas: tuple[int, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    dra: bool = False
    hami: int = 0


def parse_nodes(text: str) -> list[NodeSpec]:
    """The nodes of "6xH100-SXM:8,4xA100-80GB:8"; UsageError for a text that is none."""
    specs: list[NodeSpec] = []
    taken: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _GROUP.fullmatch(part)
        if match is None or not int(match["count"]):
            raise UsageError(
                f"--nodes: {part!r} is not COUNTxMODEL:GPUS; write for example 6xH100-SXM:8"
            )
        count, gpus = int(match["count"]), int(match["gpus"])
        if len(specs) + count > MOST_NODES or gpus > MOST_GPUS:
            raise UsageError(
                f"--nodes: {part!r} is over {MOST_NODES} nodes, or {MOST_GPUS} GPUs a node"
            )
        specs += _group_specs(match["model"], count, gpus=gpus, n=taken)
    if not specs:
        raise UsageError("--nodes names no node; write for example 6xH100-SXM:8,2xL40S:8")
    return [_in_rack(spec, i) for i, spec in enumerate(specs)]


def read_fleet(path: Path) -> list[NodeSpec]:
    """The nodes of a JSON file: a list of objects with the fields of `NodeSpec`."""
    try:
        entries = json.loads(path.read_text())
        return [_spec_of(entry) for entry in entries]
    except OSError as error:
        raise UsageError(f"--fleet: {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"--fleet: {path} is no list of nodes: {error}") from error


def _spec_of(entry: Obj) -> NodeSpec:
    values = dict(entry)
    for name in ("islands", "numas"):
        values[name] = tuple(values.get(name, ()))
    values["labels"] = tuple(sorted(values.get("labels", {}).items()))
    spec = NodeSpec(**values)
    if not isinstance(spec.gpus, int) or not 0 <= spec.gpus <= MOST_GPUS:
        raise ValueError(f"{spec.name} has {spec.gpus} GPUs: write a number up to {MOST_GPUS}")
    for numbers in (spec.islands, spec.numas):
        if numbers and len(numbers) != spec.gpus:
            raise ValueError(f"{spec.name} has {spec.gpus} GPUs, {len(numbers)} islands or numas")
    return spec


def _group_specs(model: str, count: int, *, gpus: int, n: dict[str, int]) -> list[NodeSpec]:
    base = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    first = n.get(base, 0) + 1
    n[base] = first + count - 1
    width = max(2, len(str(n[base])))
    fabric = "infiniband-1" if MODELS.get(model, _UNKNOWN).nvlink else "ethernet-1"
    return [
        NodeSpec(
            name=f"{base}-{number:0{width}d}",
            model=model,
            gpus=gpus,
            cpu=max(32, gpus * 16),
            memory_gib=max(128, gpus * 128),
            fabric=fabric,
        )
        for number in range(first, n[base] + 1)
    ]


_UNKNOWN = Model(product="", memory_mib=16384)


def _in_rack(spec: NodeSpec, position: int) -> NodeSpec:
    fields = {name: getattr(spec, name) for name in NodeSpec.__slots__}
    return NodeSpec(**{**fields, "rack": f"rack-{position // NODES_PER_RACK + 1}"})


def gpus_json(spec: NodeSpec) -> list[Obj]:
    """A node's GPUs as its annotation lists them. Without NVLink each is an island of its own."""
    model = MODELS.get(spec.model, _UNKNOWN)
    per_numa = max(1, (spec.gpus + 1) // 2)
    return [
        {
            "index": index,
            "uuid": f"GPU-{uuid.uuid5(_NAMESPACE, f'{spec.name}/{index}')}",
            "model": spec.model,
            "memory_mib": model.memory_mib,
            "island": spec.islands[index] if spec.islands else (0 if model.nvlink else index),
            "numa": spec.numas[index] if spec.numas else index // per_numa,
            "healthy": True,
        }
        for index in range(spec.gpus)
    ]


def node_object(spec: NodeSpec, clock: Clock, *, number: int, tainted: bool) -> Obj:
    """A Ready node, as its kubelet and the GPU operator would have labelled it."""
    model = MODELS.get(spec.model, _UNKNOWN)
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": spec.zone,
        "muster.dev/rack": spec.rack,
        "muster.dev/fabric": spec.fabric,
    }
    if spec.gpus:
        labels |= {
            PRODUCT: model.product or spec.model,
            COUNT: str(spec.gpus),
            MEMORY: str(model.memory_mib),
            "muster.dev/gpu-model": spec.model,
            **survey.labels(has_cards=spec.fabric.startswith("infiniband")),
        }
    gpus, has_cards = gpus_json(spec), spec.fabric.startswith("infiniband")
    annotations = {
        GPUS: json.dumps(gpus, separators=(",", ":")),
        **survey.annotations(gpus, has_nvlink=model.nvlink, has_cards=has_cards),
    }
    if spec.hami:
        annotations[REGISTER] = register_text(gpus, seats=spec.hami)
    node: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {**labels, **dict(spec.labels)},
            "annotations": annotations,
        },
        "spec": {"providerID": f"simcluster://{spec.name}"},
        "status": _status(spec, at=rfc3339(clock.now()), number=number),
    }
    if tainted and spec.gpus:
        node["spec"]["taints"] = [dict(POOL_TAINT)]
    return node


def slice_object(spec: NodeSpec) -> Obj:
    """The devices of a node as NVIDIA's DRA driver publishes them."""
    model = MODELS.get(spec.model, _UNKNOWN)
    devices = [
        {
            "name": f"gpu-{gpu['index']}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": gpu["uuid"]},
                "productName": {"string": model.product or spec.model},
            },
            "capacity": {"memory": {"value": f"{model.memory_mib}Mi"}},
        }
        for gpu in gpus_json(spec)
    ]
    return {
        "apiVersion": SLICES.api_version,
        "kind": SLICES.kind,
        "metadata": {"name": f"{spec.name}-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": spec.name,
            "pool": {"name": spec.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _status(spec: NodeSpec, *, at: str, number: int) -> Obj:
    room = {"cpu": str(spec.cpu), "memory": f"{spec.memory_gib}Gi", "pods": str(spec.pods)}
    if spec.gpus and not spec.dra:
        room[GPU] = str(spec.gpus * (spec.hami or 1))
    address = f"10.0.{number // 250}.{number % 250 + 1}"
    return {
        "capacity": room,
        "allocatable": dict(room),
        "conditions": [_condition(kind, at) for kind in _CONDITIONS],
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": spec.name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "simcluster",
            "kernelVersion": "0",
            "kubeletVersion": "v1.34.0",
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "simcluster://1",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
        "images": [],
    }


_CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}


def _condition(kind: str, at: str) -> Obj:
    status, reason = _CONDITIONS[kind]
    message = "kubelet is posting ready status" if kind == "Ready" else reason
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }
