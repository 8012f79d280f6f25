"""Fragmentation by inflation: worked out by hand, and against the protocol read once more."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command

from scheduling.engine.fragmentation import Shape, usual_mix
from scheduling.simulation.inflation.choosers import InflatePolicy, best_fit
from scheduling.simulation.inflation.cluster import Cluster
from scheduling.simulation.inflation.descent import FragmentationDescent, rounded, sigmoid
from scheduling.simulation.inflation.lists import (
    Dice,
    OpenNode,
    OpenTask,
    arrivals_of,
    read_nodes,
    read_tasks,
)
from scheduling.simulation.inflation.muster import MusterDescent
from scheduling.simulation.inflation.run import inflate
from scheduling.simulation.inflation.waste import Waste
from tests.simulation import plain_inflation

DATA = Path(__file__).parent.parent / "data"
NODES, TASKS = DATA / "openb_nodes.csv", DATA / "openb_tasks.csv"
PUBLISHED_SEEDS = range(42, 52)


def task(name, cpu, gpus, milli, models=()):
    return OpenTask(name, 0, Shape(cpu, milli, gpus, models))


TWENTY = [
    *(task(f"a{number}", 4000, 1, 500) for number in range(12)),
    *(task(f"b{number}", 8000, 2, 1000) for number in range(6)),
    task("c", 8000, 1, 1000, ("X",)),
    task("d", 2000, 0, 0),
]
N1, N2 = OpenNode("n1", 10_000, 0, 3, "Y"), OpenNode("n2", 9_000, 0, 2, "X")
MIX = usual_mix(task.shape for task in TWENTY)
SMALL = task("t", 4000, 1, 300)


def cluster_of_the_example():
    cluster = Cluster.of([N1, N2])
    cluster.gpus[0, :3] = [1000, 600, 300]
    return cluster


def descent_on(cluster, *, exact):
    return FragmentationDescent(cluster, [(SMALL.shape, 0)], MIX, exact=exact)


def wasted(cluster):
    waste = Waste(MIX, cluster.models)
    return [waste.now(cluster.state(node)) for node in range(len(cluster.nodes))]


def test_a_shuffle_draws_from_the_end_down():
    items = list(range(10))

    Dice(42).shuffle(items)

    assert items == [9, 7, 8, 5, 3, 4, 1, 2, 0, 6]


def test_the_mix_covers_95_of_100_tasks_and_ties_go_to_the_larger():
    assert [count for _, count in MIX] == [12, 6, 1]
    assert MIX[2][0] == Shape(8000, 1000, 1, ("X",))


def test_fragmentation_is_what_the_mix_could_not_use():
    assert wasted(cluster_of_the_example()) == [16_900, 0]


def test_placing_a_part_of_a_gpu_changes_it_as_worked_out_by_hand():
    drops = []
    for node, gpu in ((0, 0), (0, 1), (0, 2), (1, 0)):
        cluster = cluster_of_the_example()
        before = wasted(cluster)[node]
        cluster.place(node, SMALL, [gpu])
        drops.append(before - wasted(cluster)[node])

    assert drops == [2100, -1500, 5700, -11_900]


@pytest.mark.parametrize(("exact", "scores"), [(True, [5700, -11_900]), (False, [57, 34])])
def test_descent_takes_the_gpu_with_the_largest_drop(exact, scores):
    descent = descent_on(cluster_of_the_example(), exact=exact)

    assert descent.scores(SMALL).tolist() == scores
    assert descent.choose(SMALL) == (0, (2,))


def test_rounded_scores_are_those_of_the_formula():
    drops = [-11_900, -1500, 0, 2100, 5700, -(10**6), 10**6]

    assert rounded(19)(np.array(drops)).tolist() == [sigmoid(drop, 19) for drop in drops]
    assert [sigmoid(drop, 19) for drop in drops[:5]] == [34, 48, 50, 52, 57]


def test_best_fit_leaves_least_and_settles_ties_by_node_order():
    cluster = cluster_of_the_example()
    turned = Cluster.of([N2, N1])
    turned.gpus[1, :3] = [1000, 600, 300]

    assert best_fit(cluster, exact=True)(SMALL) == (0, (2,))
    assert best_fit(turned, exact=True)(SMALL) == (1, (2,))
    assert best_fit(turned, exact=False)(SMALL) == (0, (0,))


def test_arrivals_that_ask_for_too_much_are_drawn_out_again():
    order = arrivals_of(TWENTY, 5_000, Dice(42))

    assert len(order) < len(TWENTY)
    assert sum(task.total for task in order) <= 6_500


@pytest.mark.parametrize(
    ("policy", "exact", "seeds"),
    [
        ("random", True, PUBLISHED_SEEDS),
        ("best_fit", True, PUBLISHED_SEEDS),
        ("fgd", True, PUBLISHED_SEEDS),
        ("best_fit", False, range(42, 45)),
        ("fgd", False, range(42, 45)),
        ("muster", True, range(42, 44)),
    ],
)
def test_every_run_is_that_of_the_protocol_read_plainly(policy, exact, seeds):
    nodes, tasks = read_nodes(NODES), read_tasks(TASKS)
    plain_nodes, plain_tasks = plain_inflation.read_nodes(NODES), plain_inflation.read_tasks(TASKS)
    logs = set()
    for seed in seeds:
        run = inflate(nodes, tasks, InflatePolicy(policy), seed, exact=exact)
        plain = plain_inflation.inflate(plain_nodes, plain_tasks, policy, seed, exact=exact)

        assert run.log_sha256 == plain["log"]
        assert (run.arrivals, run.lost_tasks) == (plain["arrivals"], plain["lost"])
        assert (run.allocated, run.fragmented) == (plain["allocated"], plain["fragmented"])
        assert run.lost_tasks > 0
        logs.add(run.log_sha256)

    assert len(logs) == len(seeds)


def test_the_command_says_what_the_runs_say(capsys):
    call_command(
        "inflate",
        f"--nodes={NODES}",
        f"--pods={TASKS}",
        "--policy=fgd",
        "--exact",
        "--seeds=42-43",
        "--json",
    )

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    nodes, tasks = read_nodes(NODES), read_tasks(TASKS)
    runs = [inflate(nodes, tasks, InflatePolicy.FGD, seed, exact=True) for seed in (42, 43)]
    assert [line["log_sha256"] for line in said] == [run.log_sha256 for run in runs]


def test_muster_learns_from_what_arrived_before():
    """What arrives later does not change what was decided earlier."""
    nodes, tasks = read_nodes(NODES), read_tasks(TASKS)
    cluster = Cluster.of(nodes)
    later = [task(f"later{number}", 1000, 1, 10) for number in range(50)]
    asks = [(own.shape, own.memory_mib) for own in (*tasks, *later)]

    assert _decisions(cluster, asks, tasks) == _decisions(Cluster.of(nodes), asks[:-50], tasks)


def _decisions(cluster, asks, tasks):
    descent, found = MusterDescent(cluster, asks), []
    for own in tasks:
        choice = descent.choose(own)
        found.append(choice)
        if choice is not None:
            cluster.place(choice[0], own, choice[1])
            descent.placed(choice[0])
    return found


def test_a_list_that_was_cut_off_or_is_another_is_said(tmp_path, capsys):
    whole = gzip.compress(NODES.read_bytes())
    cut, other = tmp_path / "nodes.csv.gz", tmp_path / "other.csv"
    cut.write_bytes(whole[: len(whole) // 2])
    other.write_text("a,b\n1,2\n")

    for nodes, words in ((cut, "ended before"), (other, "no column")):
        with pytest.raises(SystemExit) as ended:
            call_command("inflate", "--nodes", str(nodes), "--pods", str(TASKS))
        assert ended.value.code == 2
        assert words in capsys.readouterr().err
