"""What a plan says of waiting jobs is true: over random worlds, and over a million cycles.

A seed gives the same cycles wherever and whenever it is run: a failure names its seed.
"""

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import count

import pytest

from scheduling.engine.plan import Reason
from scheduling.engine.scenario import read_scenario
from scheduling.simulation.run import simulate
from tests.engine.truth import falsehoods
from tests.engine.worlds import Writer

TWO_HOURS = 2 * 3600
CYCLES = int(os.environ.get("MUSTER_RANDOM_CYCLES", "1000000"))
CHUNK = 100  # seeds


def run(seed):
    """(cycles, reasons given, what was wrong) of one random world over two hours."""
    reasons, wrong, cycles, answers = Counter(), [], 0, {}

    def watch(snapshot, policy, plan):
        nonlocal cycles
        cycles += 1
        reasons.update(hold.reason for hold in plan.holds)
        found = falsehoods(snapshot, policy, plan, answers)
        wrong.extend(f"seed {seed}: {what}" for what in found)

    try:
        list(simulate(read_scenario(Writer(seed).text()), until=TWO_HOURS, check=True, watch=watch))
    except Exception as error:  # noqa: BLE001 - told with its seed, and the others go on
        wrong.append(f"seed {seed}: {error!r}")
    return cycles, reasons, wrong


def run_chunk(number):
    cycles, reasons, wrong = 0, Counter(), []
    for seed in range(number * CHUNK, (number + 1) * CHUNK):
        more = run(seed)
        cycles, reasons, wrong = cycles + more[0], reasons + more[1], wrong + more[2]
    return cycles, reasons, wrong


@pytest.mark.parametrize("seed", range(60))
def test_every_reason_is_true(seed):
    assert run(seed)[2] == []


def test_the_random_worlds_give_every_reason_that_a_small_world_can():
    told = run_chunk(4)[1] + run_chunk(5)[1]

    # A scenario has no other system's gates, and a word for a GPU that is nowhere is refused.
    assert set(Reason) - set(told) <= {
        Reason.FOREIGN_GATE,
        Reason.NO_FLAVOR,
        Reason.DEPENDENCY_FAILED,
    }


@pytest.mark.long
def test_a_million_random_cycles_are_sound_and_say_what_is_true(capsys):
    cycles, reasons, wrong = 0, Counter(), []
    with ProcessPoolExecutor() as pool:
        chunks = count()
        while cycles < CYCLES:
            batch = [next(chunks) for _ in range(2 * (os.cpu_count() or 1))]
            for done, told, found in pool.map(run_chunk, batch):
                cycles, reasons, wrong = cycles + done, reasons + told, wrong + found
            with capsys.disabled():
                sys.stdout.write(f"\r{cycles:,} cycles, {len(wrong)} wrong")
    with capsys.disabled():
        sys.stdout.write(f"\nseeds 0 to {batch[-1] * CHUNK + CHUNK - 1}: {dict(reasons)}\n")
    assert wrong == []
