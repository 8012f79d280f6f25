"""One run: tasks arrive one by one, each is placed at once or lost, and none leaves."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.fragmentation import usual_mix
from scheduling.simulation.inflation.choosers import Chooser, InflatePolicy, at_random, best_fit
from scheduling.simulation.inflation.cluster import WHOLE, Cluster
from scheduling.simulation.inflation.descent import Descent
from scheduling.simulation.inflation.lists import Dice, OpenNode, OpenTask, arrivals_of
from scheduling.simulation.inflation.waste import Mix


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
    shapes = [task.shape for task in arriving] if policy == InflatePolicy.FGD else []
    descent = Descent(cluster, mix, shapes, exact=exact)
    choosers: dict[InflatePolicy, Chooser] = {
        InflatePolicy.RANDOM: at_random(cluster, dice),
        InflatePolicy.BEST_FIT: best_fit(cluster, exact=exact),
        InflatePolicy.FGD: descent.choose,
    }
    return _Run(cluster, descent, choosers[policy], mix).run(arriving, capacity, seed)


class _Run:
    def __init__(self, cluster: Cluster, descent: Descent, choose: Chooser, mix: Mix) -> None:
        self._cluster = cluster
        self._descent = descent
        self._choose = choose
        self._mix = mix
        self._wasted = int(descent.wasted.sum())

    def run(self, arriving: Sequence[OpenTask], capacity: int, seed: int) -> Inflation:
        weight = sum(count for _, count in self._mix)
        arrived = used = lost_tasks = lost_milli = 0
        allocated: dict[int, list[float]] = defaultdict(list)
        fragmented: dict[int, list[float]] = defaultdict(list)
        log = hashlib.sha256()
        for task in arriving:
            arrived += task.total
            place = self._place(task)
            if place is None:
                lost_tasks, lost_milli = lost_tasks + 1, lost_milli + task.total
            else:
                used += task.total
            log.update(f"{task.name},{place or ','}\n".encode())
            bucket = round(100 * arrived / capacity)
            allocated[bucket].append(100 * used / capacity)
            fragmented[bucket].append(100 * self._wasted / weight / capacity)
        return Inflation(
            seed=seed,
            arrivals=len(arriving),
            lost_tasks=lost_tasks,
            lost_milli=lost_milli,
            shapes=len(self._mix),
            allocated=_means(allocated),
            fragmented=_means(fragmented),
            log_sha256=log.hexdigest(),
        )

    def _place(self, task: OpenTask) -> str | None:
        """Node and GPUs as the log has them, or None if the task is lost."""
        choice = self._choose(task)
        if choice is None:
            return None
        node, gpus = choice
        self._cluster.place(node, task, gpus)
        before = int(self._descent.wasted[node])
        self._descent.refresh(node)
        self._wasted += int(self._descent.wasted[node]) - before
        return f"{self._cluster.nodes[node].name},{'-'.join(map(str, gpus))}"


def _means(values: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {bucket: round(sum(own) / len(own), 2) for bucket, own in sorted(values.items())}
