"""Which feasible node, and which of its GPUs, a policy gives to a task."""

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from scheduling.engine.arrays import IntArray
from scheduling.simulation.inflation.cluster import Cluster, is_fraction
from scheduling.simulation.inflation.descent import Choice
from scheduling.simulation.inflation.lists import Dice, OpenTask

Chooser = Callable[[OpenTask], Choice | None]
"""A node and GPUs for a task, or None where it does not fit."""


class InflatePolicy(StrEnum):
    """Which feasible node takes a task."""

    RANDOM = "random"
    BEST_FIT = "best_fit"
    FGD = "fgd"
    MUSTER = "muster"


def at_random(cluster: Cluster, dice: Dice) -> Chooser:
    def choose(task: OpenTask) -> Choice | None:
        feasible = np.flatnonzero(cluster.feasible(task))
        if not len(feasible):
            return None
        node = int(feasible[dice.draw(len(feasible))])
        if not is_fraction(task.shape):
            return node, cluster.whole_choice(node, task.shape)
        fits = np.flatnonzero(cluster.gpus[node] >= task.shape.milli)
        return node, (int(fits[dice.draw(len(fits))]),)

    return choose


def best_fit(cluster: Cluster, *, exact: bool) -> Chooser:
    """Where least is left over of CPU and GPUs; inside a node the GPU with least left."""
    rank = _least_left if exact else _most_filled

    def choose(task: OpenTask) -> Choice | None:
        feasible = np.flatnonzero(cluster.feasible(task))
        if not len(feasible):
            return None
        cpu = cluster.cpu[feasible] - task.shape.cpu_milli
        gpu = np.maximum(cluster.gpus[feasible], 0).sum(axis=1) - task.total
        node = int(feasible[np.argmax(rank(cpu, gpu))])
        if not is_fraction(task.shape):
            return node, cluster.whole_choice(node, task.shape)
        own = cluster.gpus[node]
        fits = np.flatnonzero(own >= task.shape.milli)
        return node, (int(fits[np.argmin(own[fits])]),)

    return choose


def _least_left(cpu: IntArray, gpu: IntArray) -> IntArray:
    return -(cpu + 16 * gpu)


def _most_filled(cpu: IntArray, gpu: IntArray) -> IntArray:
    filled: IntArray = ((1.0 - (0.5 * cpu / 128000 + 0.5 * gpu / 8000)) * 100).astype(np.int64)
    return filled
