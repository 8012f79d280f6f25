"""Muster's own packing: it learns what to expect from what has arrived, and minds memory too."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.engine.worth import Ask, Worth, expected_of, spare
from scheduling.simulation.inflation.cluster import Cluster, State
from scheduling.simulation.inflation.descent import Choice, Descent
from scheduling.simulation.inflation.lists import OpenTask
from scheduling.simulation.inflation.waste import Tries

GROWTH: Final = 4
MOST_BETWEEN: Final = 500
"""It learns anew once arrivals have grown by a quarter, and after 500 at the latest."""


class MusterDescent(Descent):
    """The placement after which what is left is worth most to what was seen so far.

    asks: what may arrive at all; how often is not known beforehand.
    """

    def __init__(self, cluster: Cluster, asks: Sequence[Ask]) -> None:
        super().__init__(cluster, asks)
        self._seen: list[Ask] = []
        self._learn_at = 1
        self._worth = Worth([], cluster.models)

    def choose(self, task: OpenTask) -> Choice | None:
        self._seen.append(self.ask(task))
        if len(self._seen) >= self._learn_at:
            self._learn()
        return super().choose(task)

    def _learn(self) -> None:
        seen = len(self._seen)
        self._learn_at = seen + min(MOST_BETWEEN, max(1, seen // GROWTH))
        cluster = self.cluster
        self._worth = worth = Worth(expected_of(self._seen), cluster.models)
        allowed = worth.allowed(cluster.cpu, cluster.memory)
        worth.weigh(cluster.model, worth.kinds.room(np.maximum(cluster.gpus, 0)), allowed)
        self.score_all()

    def score(self, state: State, tries: Tries) -> IntArray:
        model, cpu, memory, *gpus = state
        worth, asks = self._worth, self.asks
        if not len(tries.row):
            return tries.row
        here = worth.kinds.room(np.maximum(np.array([gpus]), 0))
        now = worth.of(np.array([model]), here, worth.allowed(np.array([cpu]), np.array([memory])))
        room = worth.kinds.after(here, tries.old, tries.new, tries.taken)
        rows, of_try = np.unique(tries.row, return_inverse=True)
        left = cpu - asks.cpu[rows]
        allowed = worth.allowed(left, memory - asks.memory[rows])[of_try]
        growth: IntArray = worth.of(np.full(len(of_try), model), room, allowed) - now
        return growth + spare(left[of_try], tries.taken)
