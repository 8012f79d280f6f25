"""The textbook policies on one pool, worked out by hand; and the engine, which agrees with them."""

import random

import pytest

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.metrics import fair_quotas, measure, percentile
from scheduling.simulation.pool import PoolJob, PoolPolicy, run_pool
from scheduling.simulation.replay import Site, run_engine

POLICIES = {
    PoolPolicy.FIFO: Policy(order=Order.FIFO, strict=True),
    PoolPolicy.FIRSTFIT: Policy(order=Order.FIFO, reservations=0),
    PoolPolicy.EASY: Policy(order=Order.FIFO, reservations=1),
}


def jobs_of(rows, tenants=""):
    """Jobs of (submit, runtime, GPUs) or (submit, runtime, estimate, GPUs)."""
    tenants = tenants or "a" * len(rows)
    return [
        PoolJob(submit=row[0], runtime=row[1], gpus=row[-1], estimate=row[-2], tenant=tenant)
        for row, tenant in zip(rows, tenants, strict=True)
    ]


ONE = jobs_of(
    [(0, 60, 5), (0, 40, 2), (5, 30, 6), (6, 50, 1), (7, 100, 1), (8, 20, 2)], tenants="aaabbb"
)
TWO = jobs_of([(0, 10, 30, 3), (2, 8, 8, 4), (3, 20, 25, 1), (10, 4, 6, 2), (10, 20, 20, 1)])
THREE = jobs_of(
    [
        (0, 50, 8),
        (0, 50, 4),
        (1, 10, 8),
        (1, 100, 4),
        (1, 100, 20),
        (2, 10, 2),
        (2, 100, 11),
        (2, 30, 1),
        (2, 30, 1),
        (2, 10, 1),
    ]
)
WORKED = [
    ("spare GPUs", ONE, 8, "fifo", [0, 0, 60, 60, 60, 90]),
    ("spare GPUs", ONE, 8, "firstfit", [0, 0, 76, 6, 40, 56]),
    ("spare GPUs", ONE, 8, "easy", [0, 0, 60, 6, 40, 90]),
    ("long estimates", TWO, 4, "fifo", [0, 10, 18, 18, 18]),
    ("long estimates", TWO, 4, "firstfit", [0, 30, 3, 10, 10]),
    ("long estimates", TWO, 4, "easy", [0, 23, 3, 10, 31]),
    ("tied ends", THREE, 16, "fifo", [0, 0, 50, 50, None, 50, 60, 60, 90, 120]),
    ("tied ends", THREE, 16, "firstfit", [0, 0, 50, 1, None, 50, 80, 50, 50, 60]),
    ("tied ends", THREE, 16, "easy", [0, 0, 50, 1, None, 50, 60, 50, 80, 50]),
]
IDS = [f"{name}, {policy}" for name, _, _, policy, _ in WORKED]


@pytest.mark.parametrize(("_name", "jobs", "gpus", "policy", "want"), WORKED, ids=IDS)
def test_the_pool_starts_jobs_as_worked_out_by_hand(_name, jobs, gpus, policy, want):
    assert run_pool(jobs, gpus, PoolPolicy(policy)) == want


@pytest.mark.parametrize(("_name", "jobs", "gpus", "policy", "want"), WORKED, ids=IDS)
def test_the_engine_starts_jobs_as_worked_out_by_hand(_name, jobs, gpus, policy, want):
    starts = run_engine(jobs, Site(1, gpus), POLICIES[PoolPolicy(policy)], check=True)

    assert starts == want


@pytest.mark.parametrize("policy", PoolPolicy)
@pytest.mark.parametrize("seed", range(4))
def test_pool_and_engine_agree_start_for_start(policy, seed):
    draw = random.Random(seed)  # noqa: S311 -- a stream that can be drawn again
    jobs, now = [], 0
    for _ in range(60):
        now += draw.choice([0, 0, 5, 20])
        runtime = draw.randint(1, 90)
        jobs.append(
            PoolJob(now, runtime, draw.choice([1, 1, 2, 4, 8]), runtime * draw.choice([1, 1, 3]))
        )

    pool = run_pool(jobs, 8, policy)

    assert run_engine(jobs, Site(1, 8), POLICIES[policy], check=True) == pool


def test_the_figures_of_a_run_are_those_worked_out_by_hand():
    figures = measure(ONE, run_pool(ONE, 8, PoolPolicy.EASY), 8)

    assert round(figures.wait.mean, 2) == 28.33
    assert (figures.wait.p50, figures.wait.p99) == (0, 82)
    assert (round(figures.completion.mean, 2), figures.completion.p99) == (78.33, 133)
    assert round(figures.utilisation, 4) == 0.6696
    assert round(figures.slowdown, 4) == 2.0439
    assert round(figures.jain, 4) == 0.9571
    assert {name: round(wait, 2) for name, wait in figures.wait_by_tenant.items()} == {
        "a": 18.33,
        "b": 38.33,
    }
    assert fair_quotas(ONE, 8) == {"a": 6, "b": 2}


@pytest.mark.parametrize(("percent", "want"), [(1, 10), (50, 20), (51, 30), (99, 40)])
def test_percentiles_go_by_nearest_rank(percent, want):
    assert percentile([10, 20, 30, 40], percent) == want
