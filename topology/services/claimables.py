"""GPUs of a node that can be claimed (DRA), beside what the node says of itself."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from topology.kube import names
from topology.kube.values import GpuSeen, NodeSeen
from topology.models import Node


def claimable_gpus(node: Node) -> Iterator[dict[str, Any]]:
    for name in sorted(node.claimable):
        yield from node.claimable[name]


def with_claimables(node: Node, seen: NodeSeen) -> NodeSeen:
    """What a node says, with the GPUs that it gives by claims, which no device plugin counts."""
    gpus = list(claimable_gpus(node))
    if not gpus or seen.layout.offers.get(names.GPU):
        return seen
    named = tuple(
        GpuSeen(index=number, uuid=gpu["uuid"], model=gpu["model"], memory_mib=gpu["memory_mib"])
        for number, gpu in enumerate(gpus)
    )
    return replace(
        seen,
        gpu_count=len(gpus),
        gpus=seen.gpus or named,
        gpu_product=seen.gpu_product or gpus[0]["model"],
        gpu_memory_mib=seen.gpu_memory_mib or gpus[0]["memory_mib"],
    )
