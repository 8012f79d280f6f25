"""What a container asks for so that it gets the devices that were planned, under each back end.

The device plugin takes numbers only: which GPUs a container gets is the kubelet's choice. HAMi and
Volcano take UUIDs in an annotation, dynamic resource allocation (DRA) takes them in a claim, so
that what was planned is what is given.

Names and units: pkg/device/nvidia and charts/hami of HAMi, doc/design.md of
volcano-vgpu-device-plugin, and resource.k8s.io/v1 with kubernetes-sigs/dra-driver-nvidia-gpu.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from topology.catalog.gpus import GpuModel
from topology.catalog.sharing import SharingMode

_UUID: Final = re.compile(r"(GPU|MIG)-[0-9A-Fa-f]+(-[0-9A-Fa-f]+)*")
_MILLI_PER_PERCENT: Final = 10
_WHOLE: Final = 1000
_MOST_KUBELET_DEVICES: Final = 60_000  # on one node; beyond, the kubelet drops the list


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """GPUs, or equal parts of some, for one container.

    count: how many. gpu_milli, memory_mib: of each; 1000 and 0 for a whole GPU with all its memory.
    uuids: the devices that were planned; empty for any.
    """

    count: int
    gpu_milli: int = _WHOLE
    memory_mib: int = 0
    uuids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 < self.gpu_milli <= _WHOLE or self.memory_mib < 0:
            raise ValueError(f"{self} asks for no part of a GPU")
        if self.uuids and len(set(self.uuids)) != self.count:
            raise ValueError(f"{len(set(self.uuids))} devices are planned where {self.count} go")
        for uuid in self.uuids:
            if not _UUID.fullmatch(uuid):
                raise ValueError(f"{uuid!r} is no UUID of a device")

    @property
    def percent(self) -> int:
        """The part of each GPU's processors in percent, rounded up."""
        return -(-self.gpu_milli // _MILLI_PER_PERCENT)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What goes into a pod. limits: of the container. annotations: of the pod."""

    limits: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)


def hami_request(wish: DeviceWish) -> ContainerRequest:
    """The request under HAMi, whose `nvidia.com/gpu` counts GPUs that a part is taken of."""
    memory = {"nvidia.com/gpumem": str(wish.memory_mib)} if wish.memory_mib else {}
    uuids = {"nvidia.com/use-gpuuuid": ",".join(wish.uuids)} if wish.uuids else {}
    return ContainerRequest(
        {"nvidia.com/gpu": str(wish.count), **memory, "nvidia.com/gpucores": str(wish.percent)},
        {"nvidia.com/vgpu-mode": "hami-core", **uuids},
    )


def volcano_request(wish: DeviceWish, *, memory_factor: int = 1) -> ContainerRequest:
    """The request under Volcano vGPU. memory_factor: MiB in one unit, as the plugin is told too."""
    units = -(-wish.memory_mib // memory_factor)
    memory = {"volcano.sh/vgpu-memory": str(units)} if wish.memory_mib else {}
    uuids = {"volcano.sh/vgpu-use-gpuuuid": ",".join(wish.uuids)} if wish.uuids else {}
    return ContainerRequest(
        {
            "volcano.sh/vgpu-number": str(wish.count),
            **memory,
            "volcano.sh/vgpu-cores": str(wish.percent),
        },
        {"volcano.sh/vgpu-mode": "hami-core", **uuids},
    )


def request_of(mode: SharingMode, wish: DeviceWish) -> ContainerRequest:
    """The request under a back end that gives parts of GPUs. ValueError for any other."""
    if mode != SharingMode.HAMI:
        raise ValueError(f"{mode} gives no parts of GPUs by amounts")
    return hami_request(wish)


def least_memory_factor(models: Sequence[GpuModel]) -> int:
    """The least `--gpu-memory-factor` with which a node of these GPUs registers at all.

    Volcano's plugin makes a device of each unit of memory.
    """
    memory = sum(model.memory_mib for model in models)
    return max(1, -(-memory // _MOST_KUBELET_DEVICES))


def claim_spec(wish: DeviceWish) -> dict[str, Any]:
    """The `spec` of a ResourceClaim for the planned devices: whole GPUs, or MIG instances by their
    own UUIDs. Raises ValueError for what a claim cannot say: parts of a GPU, or both kinds at once.
    """
    kinds = {uuid.partition("-")[0] for uuid in wish.uuids}
    if wish.gpu_milli != _WHOLE or wish.memory_mib or len(kinds) > 1:
        raise ValueError("a claim is for whole GPUs or for MIG instances")
    device_class = "mig.nvidia.com" if kinds == {"MIG"} else "gpu.nvidia.com"
    exactly: dict[str, Any] = {"deviceClassName": device_class, "count": wish.count}
    if wish.uuids:
        listed = ", ".join(f"'{uuid}'" for uuid in wish.uuids)
        expression = f"device.attributes['gpu.nvidia.com'].uuid in [{listed}]"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def is_exact(mode: SharingMode, *, with_claims: bool) -> bool:
    """Whether what was planned is what is given. with_claims: the node hands out GPUs by DRA."""
    return with_claims or mode in {SharingMode.HAMI, SharingMode.VOLCANO_VGPU}
