"""Whole and partial public traces: published check values, and the engine beside the pool.

The check values are those of one pool of 64 GPUs under the definitions in `metrics`: they were made
by another implementation, and are compared to the last digit given.
"""

from pathlib import Path

import pytest

from scheduling.simulation.metrics import measure
from scheduling.simulation.pool import run_pool
from scheduling.simulation.streams import Estimates, read_stream
from scheduling.simulation.trace import KEEP_ALL, TraceFormat
from tests.simulation.streams import engine_starts, named, pool_starts

DATA = Path(__file__).parents[1] / "data"
GPUS = 64

# wait mean, p50, p99; completion mean, p99; utilisation; slowdown; wait of 8 GPUs and more
CHECK_VALUES = {
    ("fifo", 1): (944_302, 1_109_344, 1_490_002, 991_167, 1_696_723, 0.8032, 5024.3, 964_690),
    ("firstfit", 1): (433_240, 349_081, 3_714_322, 480_105, 3_746_037, 0.8032, 2337.5, 493_027),
    ("easy", 1): (374_339, 253_587, 1_148_026, 421_204, 1_386_450, 0.8032, 998.9, 436_965),
    ("easy", 5): (418_168, 295_092, 1_197_460, 465_033, 1_383_312, 0.8032, 1776.5, 470_431),
}


def muri(name, *, factor=1, compress=1):
    estimates = Estimates(factor)
    return read_stream(
        DATA / name, TraceFormat.MURI, keep=KEEP_ALL, compress=compress, estimates=estimates
    ).jobs


@pytest.mark.parametrize(("policy", "factor"), CHECK_VALUES)
def test_a_whole_trace_gives_the_published_figures(policy, factor):
    jobs = muri("muri_trace3.csv.gz", factor=factor)

    metrics = measure(run_pool(jobs, GPUS, named(policy)), GPUS)

    own = metrics.all
    assert (own.jobs, metrics.refused) == (992, 0)
    assert (
        round(own.wait.mean),
        own.wait.p50,
        own.wait.p99,
        round(own.completion.mean),
        own.completion.p99,
        round(metrics.utilisation, 4),
        round(own.slowdown.mean, 1),
        round(metrics.wide_wait),
    ) == CHECK_VALUES[policy, factor]


@pytest.mark.parametrize("policy", ["fifo", "firstfit", "easy", "expansion"])
@pytest.mark.parametrize(
    "name", ["muri_trace1_head", "muri_trace2_head", "muri_head", "muri_trace4_head"]
)
def test_the_engine_starts_the_jobs_of_each_trace_as_the_pool_does(name, policy):
    file = "muri_head.csv" if name == "muri_head" else f"{name}.csv.gz"
    jobs = muri(file, factor=2, compress=20)

    starts = pool_starts(jobs, GPUS, named(policy))

    assert sum(start > job.submit for start, job in zip(starts, jobs, strict=True)) > len(jobs) / 2
    assert engine_starts(jobs, GPUS, named(policy)) == starts
