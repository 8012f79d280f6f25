"""Policies that score what each task would do to each node, kept up to date as nodes change."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.worth import Ask
from scheduling.simulation.inflation.cluster import Cluster, State, is_fraction
from scheduling.simulation.inflation.lists import OpenTask
from scheduling.simulation.inflation.waste import Asks, Mix, Tries, Waste

NOWHERE: Final = -(2**62)
Choice = tuple[int, tuple[int, ...]]
Score = Callable[[IntArray], IntArray]


class Descent(ABC):
    """The node with the highest score; ties go to the first, of GPUs to that of lowest index.

    A node is scored anew only when it has changed, and nodes that are alike once.
    """

    def __init__(self, cluster: Cluster, asks: Sequence[Ask]) -> None:
        self.cluster = cluster
        self.asks = Asks(asks, cluster.models)
        self._known: dict[State, tuple[IntArray, IntArray]] = {}
        size = len(self.asks), len(cluster.nodes)
        self._scores = np.full(size, NOWHERE, dtype=np.int64)
        self._gpu = np.full(size, -1, dtype=np.int64)

    def ask(self, task: OpenTask) -> Ask:
        """What of a task decides its scores."""
        return task.shape, task.memory_mib

    def state(self, node: int) -> State:
        """What of a node decides its scores."""
        return self.cluster.state(node)

    @abstractmethod
    def score(self, state: State, tries: Tries) -> IntArray:
        """(T,) of a node in this state, the larger the better."""

    def score_all(self) -> None:
        """Forget what was known, and look at each node again."""
        self._known.clear()
        for node in range(len(self.cluster.nodes)):
            self.placed(node)

    def scores(self, task: OpenTask) -> IntArray:
        """(N,) for a task, NOWHERE without room."""
        row = self.asks.rows[self.ask(task)]
        enough = self.cluster.memory >= task.memory_mib
        scores: IntArray = np.where(enough, self._scores[row], NOWHERE)
        return scores

    def choose(self, task: OpenTask) -> Choice | None:
        scores = self.scores(task)
        node = int(scores.argmax())
        if scores[node] == NOWHERE:
            return None
        if is_fraction(task.shape):
            return node, (int(self._gpu[self.asks.rows[self.ask(task)], node]),)
        return node, self.cluster.whole_choice(node, task.shape)

    def placed(self, node: int) -> None:
        """Look at a node that has changed."""
        state = self.state(node)
        if state not in self._known:
            tries = self.asks.tries(state)
            self._known[state] = best_by_row(tries, self.score(state, tries), len(self.asks))
        self._scores[:, node], self._gpu[:, node] = self._known[state]


class FragmentationDescent(Descent):
    """Steepest descent of fragmentation, whose mix is known from the start. Memory does not count.

    exact compares drops of W x F as they are; otherwise they are rounded to 0..100.
    """

    def __init__(self, cluster: Cluster, asks: Sequence[Ask], mix: Mix, *, exact: bool) -> None:
        super().__init__(cluster, [(shape, 0) for shape, _ in asks])
        self._waste = Waste(mix, cluster.models)
        self._score: Score = as_it_is if exact else rounded(self._waste.weight)
        self.score_all()

    def ask(self, task: OpenTask) -> Ask:
        return task.shape, 0

    def state(self, node: int) -> State:
        model, cpu, _, *gpus = self.cluster.state(node)
        return (model, cpu, 0, *gpus)

    def score(self, state: State, tries: Tries) -> IntArray:
        after = self._waste.after(state, tries, state[1] - self.asks.cpu[tries.row])
        return self._score(self._waste.now(state) - after)


def best_by_row(tries: Tries, scores: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """(rows,) best score of each ask, and the lowest GPU that gives it."""
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
    """The least drop with this score, or one that no node can have."""
    low, high = -(2**18) * weight, 2**18 * weight
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
