"""Fragmentation by inflation, against what can be worked out by hand."""

import numpy as np

from scheduling.engine.fragmentation import Fragmentation, Shape, usual_mix
from scheduling.simulation.inflate import (
    Cluster,
    Dice,
    InflatePolicy,
    OpenNode,
    OpenTask,
    inflate,
)


def task(name, cpu, gpus, milli, models=()):
    return OpenTask(name, 0, Shape(cpu, milli, gpus, models))


TWENTY = [
    *(task(f"a{number}", 4000, 1, 500) for number in range(12)),
    *(task(f"b{number}", 8000, 2, 1000) for number in range(6)),
    task("c", 8000, 1, 1000, ("X",)),
    task("d", 2000, 0, 0),
]
N1, N2 = OpenNode("n1", 10_000, 0, 3, "Y"), OpenNode("n2", 9_000, 0, 2, "X")


def cluster_of_the_example():
    cluster = Cluster.of([N1, N2])
    cluster.gpus[0, :3] = [1000, 600, 300]
    return cluster


def wasted(cluster, node):
    frag = Fragmentation(usual_mix(task.shape for task in TWENTY), cluster.models)
    gpus = np.maximum(cluster.gpus[node : node + 1], 0)
    return int(frag.of(int(cluster.model[node]), cluster.cpu[node : node + 1], gpus)[0])


def test_a_shuffle_draws_from_the_end_down():
    items = list(range(10))

    Dice(42).shuffle(items)

    assert items == [9, 7, 8, 5, 3, 4, 1, 2, 0, 6]


def test_the_mix_covers_95_of_100_tasks_and_ties_go_to_the_larger():
    mix = usual_mix(task.shape for task in TWENTY)

    assert [count for _, count in mix] == [12, 6, 1]
    assert mix[2][0] == Shape(8000, 1000, 1, ("X",))


def test_fragmentation_is_what_the_mix_could_not_use():
    cluster = cluster_of_the_example()

    assert [wasted(cluster, 0), wasted(cluster, 1)] == [16_900, 0]


def test_placing_a_part_of_a_gpu_changes_it_as_worked_out_by_hand():
    drops = []
    for node, gpu in ((0, 0), (0, 1), (0, 2), (1, 0)):
        cluster = cluster_of_the_example()
        before = wasted(cluster, node)
        cluster.place(node, task("t", 4000, 1, 300), [gpu])
        drops.append(before - wasted(cluster, node))

    assert drops == [2100, -1500, 5700, -11_900]


def test_a_run_is_the_same_every_time_and_loses_what_does_not_fit():
    nodes = [N1, N2]

    first = inflate(nodes, TWENTY, InflatePolicy.FGD, 42, exact=True)
    second = inflate(nodes, TWENTY, InflatePolicy.FGD, 42, exact=True)

    assert first == second
    assert first.lost_tasks > 0
    assert max(first.allocated.values()) <= 100
