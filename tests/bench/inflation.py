"""What a run of inflation costs on the cluster and the tasks that the published figures are of."""

import os
from functools import partial
from pathlib import Path

from scheduling.simulation.inflation.choosers import InflatePolicy
from scheduling.simulation.inflation.lists import read_nodes, read_tasks
from scheduling.simulation.inflation.run import inflate
from tests.bench.figures import Figure, NotRun
from tests.bench.measuring import least_cpu_seconds

VARIABLE = "MUSTER_OPENB"
NODES, TASKS = "openb_node_list_gpu_node.csv.gz", "openb_pod_list_default.csv.gz"
SEED, ROUNDS = 42, 3


def lists():
    """Nodes and tasks of the folder that the environment names."""
    folder = Path(os.environ.get(VARIABLE, ""))
    if not (VARIABLE in os.environ and (folder / NODES).is_file() and (folder / TASKS).is_file()):
        raise NotRun(f"{VARIABLE} must name a folder with {NODES} and {TASKS}")
    return read_nodes(folder / NODES), read_tasks(folder / TASKS)


def descent():
    """One run of `fgd` in rounded mode, from the lists as read to its last arrival."""
    nodes, tasks = lists()
    work = partial(inflate, nodes, tasks, InflatePolicy.FGD, SEED, exact=False)
    run = work()
    yield Figure(
        bench="inflate-fgd",
        name="seconds",
        value=least_cpu_seconds(work, ROUNDS),
        n=ROUNDS,
        of={"lists": f"{len(nodes):,} nodes, {run.arrivals:,} arrivals, seed {SEED}"},
        protocol=f"CPU seconds, least of {ROUNDS} after a warm-up, one process, one core",
    )


BENCHES = {"inflate-fgd": descent}
