"""Recorded cycles that are planned the same forever: `python -m tests.engine.golden` records anew.

A plan that comes out otherwise is either a bug or a decision: then record anew, look at what has
changed, and say in the commit why it is better.
"""

import gzip
import json
from pathlib import Path

from scheduling.engine.codec import encode
from scheduling.engine.scenario import read_scenario
from scheduling.simulation.run import simulate
from tests.engine.worlds import Writer

FOLDER = Path(__file__).parents[1] / "data" / "golden"
SEEDS = range(7000, 7020)
PART = 0.5  # of the way through a run, where most jobs run and most reasons are given


def record(seed):
    """Snapshot, policy and plan from the middle of a random run, as text."""
    seen = []
    scenario = read_scenario(Writer(seed).text())
    list(simulate(scenario, until=2 * 3600, watch=lambda *cycle: seen.append(cycle)))
    snapshot, policy, plan = seen[int(PART * len(seen))]
    return {name: encode(part) for name, part in _named(snapshot, policy, plan)}


def _named(snapshot, policy, plan):
    return (("snapshot", snapshot), ("policy", policy), ("plan", plan))


def write(seed):
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(record(seed)).encode()
    (FOLDER / f"{seed}.json.gz").write_bytes(gzip.compress(text, mtime=0))


def read(path):
    return json.loads(gzip.decompress(path.read_bytes()))


if __name__ == "__main__":
    for seed in SEEDS:
        write(seed)
