"""Steepest descent of fragmentation: what each shape would do to each node, kept up to date."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.fragmentation import Shape
from scheduling.simulation.inflation.cluster import Cluster, State, is_fraction
from scheduling.simulation.inflation.lists import OpenTask
from scheduling.simulation.inflation.waste import Mix, Shapes, Tries, Waste

NOWHERE: Final = -(2**62)
Choice = tuple[int, tuple[int, ...]]
Score = Callable[[IntArray], IntArray]


class Descent:
    """Scores of all shapes on all nodes. A node is looked at anew only when it has changed.

    scores: (shapes, N), the larger the better, NOWHERE without room. wasted: (N,) W x F.
    """

    def __init__(self, cluster: Cluster, mix: Mix, shapes: Sequence[Shape], *, exact: bool) -> None:
        self._cluster = cluster
        self._waste = Waste(mix, cluster.models)
        self._shapes = Shapes(shapes, cluster.models)
        self._score: Score = as_it_is if exact else rounded(self._waste.weight)
        self._known: dict[State, tuple[int, IntArray, IntArray]] = {}
        size = len(self._shapes), len(cluster.nodes)
        self.scores = np.full(size, NOWHERE, dtype=np.int64)
        self.gpu = np.full(size, -1, dtype=np.int64)
        self.wasted = np.zeros(len(cluster.nodes), dtype=np.int64)
        for node in range(len(cluster.nodes)):
            self.refresh(node)

    def choose(self, task: OpenTask) -> Choice | None:
        row = self._shapes.rows[task.shape]
        scores = np.where(self._cluster.memory >= task.memory_mib, self.scores[row], NOWHERE)
        node = int(scores.argmax())
        if scores[node] == NOWHERE:
            return None
        if is_fraction(task.shape):
            return node, (int(self.gpu[row, node]),)
        return node, self._cluster.whole_choice(node, task.shape)

    def refresh(self, node: int) -> None:
        state = self._cluster.state(node)
        if state not in self._known:
            self._known[state] = self._look(state)
        self.wasted[node], self.scores[:, node], self.gpu[:, node] = self._known[state]

    def _look(self, state: State) -> tuple[int, IntArray, IntArray]:
        tries = self._shapes.tries(state)
        now, after = self._waste.of(state, tries)
        return now, *best_by_row(tries, self._score(now - after), len(self._shapes))


def best_by_row(tries: Tries, scores: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """(rows,) best score of each shape, and the lowest GPU that gives it."""
    best, gpu = np.full(rows, NOWHERE, dtype=np.int64), np.full(rows, -1, dtype=np.int64)
    order = np.lexsort((-tries.gpu, scores))  # the last of each row is written last, and stays
    best[tries.row[order]] = scores[order]
    gpu[tries.row[order]] = tries.gpu[order]
    return best, gpu


def as_it_is(drops: IntArray) -> IntArray:
    return drops


def rounded(weight: int) -> Score:
    """Drops of W x F as whole numbers from 0 to 100: a sigmoid of the drop in whole GPUs.

    The smallest drop of each score is sought once, so that scores are those of the formula to the
    last bit however many are asked for at once.
    """
    least = np.array([_least_drop(score, weight) for score in range(1, 101)], dtype=np.int64)

    def score(drops: IntArray) -> IntArray:
        found: IntArray = np.searchsorted(least, drops, side="right").astype(np.int64)
        return found

    return score


def _least_drop(score: int, weight: int) -> int:
    low, high = -(2**20) * weight, 2**20 * weight
    while low < high:
        middle = (low + high) // 2
        if sigmoid(middle, weight) >= score:
            high = middle
        else:
            low = middle + 1
    return low


def sigmoid(drop: int, weight: int) -> int:
    """The score of one drop."""
    x = drop / weight / 1000.0
    return math.trunc(100.0 / (1.0 + math.exp(-x)))
