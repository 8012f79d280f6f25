"""What is left of the nodes while tasks fill them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fragmentation import Shape
from scheduling.simulation.inflation.lists import OpenNode, OpenTask

WHOLE: Final = 1000
MOST_GPUS: Final = 8
State = tuple[int, ...]
"""Model, CPU, memory and GPUs of a node: nodes that share them are alike."""


def is_fraction(shape: Shape) -> bool:
    """Whether it lives on a part of one GPU."""
    return shape.gpus == 1 and shape.milli < WHOLE


@dataclass(slots=True)
class Cluster:
    """What is left of the nodes. gpus: (N, 8) milli, -1 where there is none."""

    nodes: Sequence[OpenNode]
    models: list[str]
    model: IntArray
    cpu: IntArray
    memory: IntArray
    gpus: IntArray

    @classmethod
    def of(cls, nodes: Sequence[OpenNode]) -> "Cluster":
        models = sorted({node.model for node in nodes})
        gpus = np.full((len(nodes), MOST_GPUS), -1, dtype=np.int64)
        for index, node in enumerate(nodes):
            gpus[index, : node.gpus] = WHOLE
        return cls(
            nodes,
            models,
            np.array([models.index(node.model) for node in nodes], dtype=np.int64),
            np.array([node.cpu_milli for node in nodes], dtype=np.int64),
            np.array([node.memory_mib for node in nodes], dtype=np.int64),
            gpus,
        )

    def feasible(self, task: OpenTask) -> BoolArray:
        """(N,) nodes that could take the task."""
        shape = task.shape
        fits: BoolArray = (self.cpu >= shape.cpu_milli) & (self.memory >= task.memory_mib)
        if shape.gpus:
            fits &= (self.gpus >= shape.milli).sum(axis=1) >= shape.gpus
            if shape.models:
                fits &= np.isin(self.model, [self._index(model) for model in shape.models])
        return fits

    def _index(self, model: str) -> int:
        return self.models.index(model) if model in self.models else -1

    def state(self, node: int) -> State:
        cpu, memory = int(self.cpu[node]), int(self.memory[node])
        return (int(self.model[node]), cpu, memory, *self.gpus[node].tolist())

    def whole_choice(self, node: int, shape: Shape) -> tuple[int, ...]:
        """The free GPUs of lowest index, as many as asked."""
        fits = np.flatnonzero(self.gpus[node] >= shape.milli)
        return tuple(fits[: shape.gpus].tolist())

    def place(self, node: int, task: OpenTask, chosen: Sequence[int]) -> None:
        self.cpu[node] -= task.shape.cpu_milli
        self.memory[node] -= task.memory_mib
        self.gpus[node, list(chosen)] -= task.shape.milli
