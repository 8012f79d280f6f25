from typing import Any

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.jobs import Level
from scheduling.snapshots.rows import Rows

WHOLE_GPU_MILLI = 1000


def nodes(rows: Rows) -> dict[str, Any]:
    capacity = np.array(
        [[node.cpu_milli for node in rows.nodes], [node.memory_mib for node in rows.nodes]],
        dtype=np.int64,
    ).reshape(2, len(rows.nodes))
    used, releasing = _use_of_nodes(rows)
    return {
        "node_ids": tuple(node.pk for node in rows.nodes),
        "node_names": tuple(node.name for node in rows.nodes),
        "node_flavor": [rows.flavor_of(node) for node in rows.nodes],
        "node_open": [node.is_open for node in rows.nodes],
        "capacity": capacity,
        # A node whose room shrank under its jobs has none left, not less than none.
        "free": np.maximum(capacity - used, 0),
        "releasing": releasing,
    }


def _use_of_nodes(rows: Rows) -> tuple[IntArray, IntArray]:
    """(2, N) CPU and memory held by placements, and the part of it that is on its way back."""
    asked = {
        group.pk: (group.cpu_milli, group.memory_mib)
        for groups in rows.groups.values()
        for group in groups
    }
    used = np.zeros((2, len(rows.nodes)), dtype=np.int64)
    releasing = np.zeros_like(used)
    for placement in rows.placements:
        node = rows.node_at.get(placement.node_id)
        if node is not None:
            amount = np.multiply(asked[placement.group_id], placement.member_count)
            used[:, node] += amount
            if rows.is_leaving(placement):
                releasing[:, node] += amount
    return used, releasing


def gpus(rows: Rows) -> dict[str, Any]:
    models = sorted({gpu.model for gpu in rows.gpus})
    model_at = {model: index for index, model in enumerate(models)}
    held = {gpu for members in rows.held.values() for member in members for gpu in member.gpus}
    return {
        "gpu_ids": tuple(gpu.pk for gpu in rows.gpus),
        "gpu_models": tuple(models),
        "gpu_node": [rows.node_at[gpu.node_id] for gpu in rows.gpus],
        "gpu_index": [gpu.index for gpu in rows.gpus],
        "gpu_model": [model_at[gpu.model] for gpu in rows.gpus],
        "gpu_memory_mib": [gpu.memory_mib or 0 for gpu in rows.gpus],
        "gpu_free_milli": [0 if at in held else WHOLE_GPU_MILLI for at in range(len(rows.gpus))],
        "gpu_island": [gpu.island for gpu in rows.gpus],
        "gpu_numa": [gpu.numa for gpu in rows.gpus],
        "gpu_open": [gpu.is_healthy for gpu in rows.gpus],
    }


def domains(rows: Rows) -> dict[str, Any]:
    """Which domain each node is in at each level. Where nobody says, a level has one domain,
    save NVLink across nodes, which nobody has unless it is said.
    """
    words = {
        Level.NODE: [node.name for node in rows.nodes],
        Level.NVL: [
            node.nvlink_domain.name if node.nvlink_domain else f"node {node.name}"
            for node in rows.nodes
        ],
        Level.RACK: [node.rack.name if node.rack else "" for node in rows.nodes],
        Level.BLOCK: ["" for _ in rows.nodes],
        Level.FABRIC: [node.fabric.name if node.fabric else "" for node in rows.nodes],
    }
    names = tuple(tuple(dict.fromkeys(words[level])) for level in Level)
    index = [{name: at for at, name in enumerate(names[level])} for level in Level]
    return {
        "domain_names": names,
        "domain_oversub_milli": tuple(tuple(0 for _ in level) for level in names),
        "node_domain": [[index[level][word] for word in words[level]] for level in Level],
    }
