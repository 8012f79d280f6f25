"""How many GPUs a placement policy hands out before fragmentation stops it.

Tasks arrive one by one until a cluster was asked for more than it has; each is placed at once or
lost, and none leaves. Fragmentation is what the usual mix of tasks could not use of what is free.
"""

import csv
import gzip
import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fragmentation import Fragmentation, Shape, usual_mix

WHOLE: Final = 1000
MOST_GPUS: Final = 8
TARGET: Final = (13, 10)
"""Arrivals stop at this part of the capacity."""
T = TypeVar("T")
NOWHERE: Final = -(2**62)


class InflatePolicy(StrEnum):
    """Which feasible node takes a task."""

    RANDOM = "random"
    BEST_FIT = "best_fit"
    FGD = "fgd"


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


@dataclass(frozen=True, slots=True)
class Inflation:
    """One run. allocated, fragmented: percent of capacity by percent of capacity arrived."""

    seed: int
    arrivals: int
    lost_tasks: int
    lost_milli: int
    shapes: int
    allocated: Mapping[int, float]
    fragmented: Mapping[int, float]
    log_sha256: str


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

    def whole_choice(self, node: int, shape: Shape) -> tuple[int, ...]:
        """The free GPUs of lowest index, as many as asked."""
        fits = np.flatnonzero(self.gpus[node] >= shape.milli)
        return tuple(fits[: shape.gpus].tolist())

    def place(self, node: int, task: OpenTask, chosen: Sequence[int]) -> None:
        self.cpu[node] -= task.shape.cpu_milli
        self.memory[node] -= task.memory_mib
        self.gpus[node, list(chosen)] -= task.shape.milli


def is_fraction(shape: Shape) -> bool:
    """Whether it lives on a part of one GPU."""
    return shape.gpus == 1 and shape.milli < WHOLE


Choice = tuple[int, tuple[int, ...]]
Chooser = Callable[[OpenTask, IntArray], Choice]


class _Descent:
    """Steepest descent of fragmentation: what each shape would do to each node, kept up to date."""

    def __init__(
        self, cluster: Cluster, frag: Fragmentation, shapes: Sequence[Shape], *, exact: bool
    ) -> None:
        self._cluster = cluster
        self._frag = frag
        self._shapes = list(dict.fromkeys(shapes))
        self._row = {shape: row for row, shape in enumerate(self._shapes)}
        self._exact = exact
        self._known: dict[tuple[int, ...], tuple[IntArray, IntArray, int]] = {}
        size = len(self._shapes), len(cluster.nodes)
        self.scores = np.full(size, NOWHERE, dtype=np.int64)
        self.gpu = np.full(size, -1, dtype=np.int64)
        self.fragmented = np.zeros(len(cluster.nodes), dtype=np.int64)
        for node in range(len(cluster.nodes)):
            self.refresh(node)

    def choose(self, task: OpenTask, feasible: IntArray) -> Choice:
        row = self._row[task.shape]
        node = int(feasible[np.argmax(self.scores[row, feasible])])
        if is_fraction(task.shape):
            return node, (int(self.gpu[row, node]),)
        return node, self._cluster.whole_choice(node, task.shape)

    def refresh(self, node: int) -> None:
        """Look at a node anew that has changed."""
        cluster = self._cluster
        state = (
            int(cluster.model[node]),
            int(cluster.cpu[node]),
            *cluster.gpus[node].tolist(),
        )
        if state not in self._known:
            self._known[state] = self._look(node)
        self.scores[:, node], self.gpu[:, node], self.fragmented[node] = self._known[state]

    def _look(self, node: int) -> tuple[IntArray, IntArray, int]:
        """Scores and GPUs (shapes,), and W x F as it is."""
        own = np.maximum(self._cluster.gpus[node], 0)
        cpu, model = int(self._cluster.cpu[node]), int(self._cluster.model[node])
        tries = self._tries(self._cluster.gpus[node], cpu)
        states = np.repeat(own[None, :], len(tries) + 1, axis=0)
        cpus = np.full(len(tries) + 1, cpu, dtype=np.int64)
        for index, (row, chosen) in enumerate(tries, 1):
            shape = self._shapes[row]
            states[index, list(chosen)] -= shape.milli
            cpus[index] -= shape.cpu_milli
        wasted = self._frag.of(model, cpus, states)
        scores = np.full(len(self._shapes), NOWHERE, dtype=np.int64)
        gpus = np.full(len(self._shapes), -1, dtype=np.int64)
        for (row, chosen), after in zip(tries, wasted[1:].tolist(), strict=True):
            score = self._score(int(wasted[0]) - after)
            if score > scores[row]:
                scores[row], gpus[row] = score, chosen[0] if chosen else -1
        return scores, gpus, int(wasted[0])

    def _tries(self, own: IntArray, cpu: int) -> list[tuple[int, tuple[int, ...]]]:
        """(shape, GPUs) of every placement worth looking at; of equal GPUs only the first."""
        left = own.tolist()
        first = {milli: left.index(milli) for milli in left if milli > 0}
        found: list[tuple[int, tuple[int, ...]]] = []
        for row, shape in enumerate(self._shapes):
            if shape.cpu_milli > cpu:
                continue
            if is_fraction(shape):
                fits = sorted(index for milli, index in first.items() if milli >= shape.milli)
                found += [(row, (index,)) for index in fits]
                continue
            free = [index for index, milli in enumerate(left) if milli >= max(1, shape.milli)]
            if len(free) >= shape.gpus:
                found.append((row, tuple(free[: shape.gpus])))
        return found

    def _score(self, drop: int) -> int:
        if self._exact:
            return drop
        x = drop / self._frag.weight / 1000.0
        return math.trunc(100.0 / (1.0 + math.exp(-x)))


def inflate(
    nodes: Sequence[OpenNode],
    tasks: Sequence[OpenTask],
    policy: InflatePolicy,
    seed: int,
    *,
    exact: bool,
) -> Inflation:
    """One run of the protocol under one seed.

    exact compares whole numbers and breaks ties by node order; otherwise scores are rounded to
    0..100 and ties go to the first in a node order shuffled once.
    """
    dice = Dice(seed)
    capacity = sum(node.gpus for node in nodes) * WHOLE
    arriving = arrivals_of(tasks, capacity, dice)
    nodes = list(nodes)
    if policy != InflatePolicy.RANDOM and not exact:
        dice.shuffle(nodes)
    mix = usual_mix(task.shape for task in tasks)
    cluster = Cluster.of(nodes)
    frag = Fragmentation(mix, cluster.models)
    shapes = [task.shape for task in arriving] if policy == InflatePolicy.FGD else []
    descent = _Descent(cluster, frag, shapes, exact=exact)
    choose = _chooser(policy, cluster, descent, dice, exact=exact)
    return _Run(cluster, descent, choose, frag).run(arriving, capacity, seed)


class _Run:
    def __init__(
        self, cluster: Cluster, descent: _Descent, choose: Chooser, frag: Fragmentation
    ) -> None:
        self._cluster = cluster
        self._descent = descent
        self._choose = choose
        self._weight, self._shapes = frag.weight, frag.shapes

    def run(self, arriving: Sequence[OpenTask], capacity: int, seed: int) -> Inflation:
        arrived = used = lost_tasks = lost_milli = 0
        allocated: dict[int, list[float]] = defaultdict(list)
        fragmented: dict[int, list[float]] = defaultdict(list)
        log = hashlib.sha256()
        wasted = int(self._descent.fragmented.sum())
        for task in arriving:
            arrived += task.total
            feasible = np.flatnonzero(self._cluster.feasible(task))
            line = f"{task.name},,"
            if len(feasible):
                node, chosen = self._choose(task, feasible)
                self._cluster.place(node, task, chosen)
                before = int(self._descent.fragmented[node])
                self._descent.refresh(node)
                wasted += int(self._descent.fragmented[node]) - before
                used += task.total
                gpus = "-".join(map(str, chosen))
                line = f"{task.name},{self._cluster.nodes[node].name},{gpus}"
            else:
                lost_tasks, lost_milli = lost_tasks + 1, lost_milli + task.total
            log.update(f"{line}\n".encode())
            bucket = round(100 * arrived / capacity)
            allocated[bucket].append(100 * used / capacity)
            fragmented[bucket].append(100 * wasted / self._weight / capacity)
        return Inflation(
            seed=seed,
            arrivals=len(arriving),
            lost_tasks=lost_tasks,
            lost_milli=lost_milli,
            shapes=self._shapes,
            allocated=_means(allocated),
            fragmented=_means(fragmented),
            log_sha256=log.hexdigest(),
        )


def _means(values: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {bucket: round(sum(own) / len(own), 2) for bucket, own in sorted(values.items())}


def _chooser(
    policy: InflatePolicy, cluster: Cluster, descent: _Descent, dice: Dice, *, exact: bool
) -> Chooser:
    if policy == InflatePolicy.FGD:
        return descent.choose

    def at_random(task: OpenTask, feasible: IntArray) -> Choice:
        node = int(feasible[dice.draw(len(feasible))])
        if not is_fraction(task.shape):
            return node, cluster.whole_choice(node, task.shape)
        fits = np.flatnonzero(cluster.gpus[node] >= task.shape.milli)
        return node, (int(fits[dice.draw(len(fits))]),)

    def best_fit(task: OpenTask, feasible: IntArray) -> Choice:
        cpu = cluster.cpu[feasible] - task.shape.cpu_milli
        gpu = np.maximum(cluster.gpus[feasible], 0).sum(axis=1) - task.total
        if exact:
            node = int(feasible[np.argmin(cpu + 16 * gpu)])
        else:
            left = 0.5 * cpu / 128000 + 0.5 * gpu / 8000
            node = int(feasible[np.argmax(np.trunc((1.0 - left) * 100))])
        if not is_fraction(task.shape):
            return node, cluster.whole_choice(node, task.shape)
        own = cluster.gpus[node]
        fits = np.flatnonzero(own >= task.shape.milli)
        return node, (int(fits[np.argmin(own[fits])]),)

    return at_random if policy == InflatePolicy.RANDOM else best_fit
