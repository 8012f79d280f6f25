"""Lists of nodes and tasks as the openb trace has them, and the order in which tasks arrive."""

import csv
import gzip
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from scheduling.engine.fragmentation import Shape

TARGET: Final = (13, 10)
"""Arrivals stop at this part of the capacity."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenNode:
    """A node of the list. gpus: how many."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task of the list."""

    name: str
    memory_mib: int
    shape: Shape

    @property
    def total(self) -> int:
        """GPU milli of all its GPUs."""
        return self.shape.gpus * self.shape.milli


def read_nodes(path: Path) -> list[OpenNode]:
    """The nodes of a list with GPUs, sorted by name."""
    rows = [
        OpenNode(
            row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]
        )
        for row in _rows(path)
    ]
    return sorted((node for node in rows if node.gpus), key=lambda node: node.name)


def read_tasks(path: Path) -> list[OpenTask]:
    """The tasks of a list, sorted by name. Repeated models are kept: they make another shape."""
    return sorted((_task(row) for row in _rows(path)), key=lambda task: task.name)


def _task(row: Mapping[str, str]) -> OpenTask:
    gpus = int(row["num_gpu"])
    models = tuple(sorted((row.get("gpu_spec") or "").split("|"))) if gpus else ()
    shape = Shape(
        int(row["cpu_milli"]),
        int(row["gpu_milli"]) if gpus else 0,
        gpus,
        tuple(model for model in models if model),
    )
    return OpenTask(row["name"], int(row["memory_mib"]), shape)


def _rows(path: Path) -> list[dict[str, str]]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


class Dice:
    """Draws as the protocol says: only `random()` is called, once per draw."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 -- arrivals that can be drawn again

    def draw(self, most: int) -> int:
        return math.trunc(self._rng.random() * most)

    def shuffle(self, items: list[T]) -> None:
        """Shuffle in place, from the last item down."""
        for index in range(len(items) - 1, 0, -1):
            other = self.draw(index + 1)
            items[index], items[other] = items[other], items[index]


def arrivals_of(tasks: Sequence[OpenTask], capacity: int, dice: Dice) -> list[OpenTask]:
    """The tasks in the order of arrival, cut or filled up to the target of GPU milli."""
    target = capacity * TARGET[0] // TARGET[1]
    order = list(tasks)
    dice.shuffle(order)
    asked = sum(task.total for task in order)
    while asked > target:
        asked -= order.pop(dice.draw(len(order))).total
    while True:
        extra = tasks[dice.draw(len(tasks))]
        if asked + extra.shape.milli > target:
            return order
        order.append(extra)
        asked += extra.total
