"""One run: tasks arrive one by one, each is placed at once or lost, and none leaves."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.fragmentation import usual_mix
from scheduling.simulation.inflation.choosers import Chooser, InflatePolicy, at_random, best_fit
from scheduling.simulation.inflation.cluster import WHOLE, Cluster
from scheduling.simulation.inflation.descent import Descent, FragmentationDescent
from scheduling.simulation.inflation.lists import Dice, OpenNode, OpenTask, arrivals_of
from scheduling.simulation.inflation.muster import MusterDescent
from scheduling.simulation.inflation.waste import Mix, Waste


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
    0..100 and ties go to the first in a node order shuffled once. Neither matters to `random` and
    `muster`.
    """
    dice = Dice(seed)
    capacity = sum(node.gpus for node in nodes) * WHOLE
    arriving = arrivals_of(tasks, capacity, dice)
    nodes = list(nodes)
    if policy in {InflatePolicy.BEST_FIT, InflatePolicy.FGD} and not exact:
        dice.shuffle(nodes)
    mix = usual_mix(task.shape for task in tasks)
    cluster = Cluster.of(nodes)
    run = _Run(cluster, mix)
    asks = [(task.shape, task.memory_mib) for task in arriving]
    if policy == InflatePolicy.RANDOM:
        run.choose = at_random(cluster, dice)
    elif policy == InflatePolicy.BEST_FIT:
        run.choose = best_fit(cluster, exact=exact)
    elif policy == InflatePolicy.FGD:
        run.follow(FragmentationDescent(cluster, asks, mix, exact=exact))
    else:
        run.follow(MusterDescent(cluster, asks))
    return run.run(arriving, capacity, seed)


class _Run:
    """Cluster, policy, and what is wasted on each node."""

    choose: Chooser

    def __init__(self, cluster: Cluster, mix: Mix) -> None:
        self._cluster = cluster
        self._mix = mix
        self._waste = Waste(mix, cluster.models)
        self._wasted = [self._waste.now(cluster.state(node)) for node in range(len(cluster.nodes))]
        self._all_wasted = sum(self._wasted)
        self._placed: Callable[[int], None] = _ignore

    def follow(self, descent: Descent) -> None:
        """Let a policy choose that wants to hear of changes."""
        self.choose = descent.choose
        self._placed = descent.placed

    def run(self, arriving: Sequence[OpenTask], capacity: int, seed: int) -> Inflation:
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
            fragmented[bucket].append(100 * self._all_wasted / self._waste.weight / capacity)
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
        choice = self.choose(task)
        if choice is None:
            return None
        node, gpus = choice
        self._cluster.place(node, task, gpus)
        self._placed(node)
        wasted = self._waste.now(self._cluster.state(node))
        self._all_wasted += wasted - self._wasted[node]
        self._wasted[node] = wasted
        return f"{self._cluster.nodes[node].name},{'-'.join(map(str, gpus))}"


def _ignore(node: int) -> None:
    """For policies that look at all nodes each time."""


def _means(values: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {bucket: round(sum(own) / len(own), 2) for bucket, own in sorted(values.items())}
