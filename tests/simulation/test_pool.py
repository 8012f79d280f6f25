"""The textbook policies on one pool, worked out by hand; and the engine, which agrees with them."""

import random
from dataclasses import replace

import pytest

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.pool import run_pool
from scheduling.simulation.streams import NAMED_POLICIES
from tests.simulation.streams import engine_starts, jobs_of, named, pool_starts

POOL_POLICIES = ["fifo", "firstfit", "easy", "expansion"]

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
    assert pool_starts(jobs, gpus, named(policy)) == want


@pytest.mark.parametrize(("_name", "jobs", "gpus", "policy", "want"), WORKED, ids=IDS)
def test_the_engine_starts_jobs_as_worked_out_by_hand(_name, jobs, gpus, policy, want):
    assert engine_starts(jobs, gpus, named(policy)) == want


def drawn_jobs(seed):
    draw = random.Random(seed)  # noqa: S311 -- a stream that can be drawn again
    rows, now = [], 0
    for _ in range(60):
        now += draw.choice([0, 0, 5, 20])
        runtime = draw.randint(1, 90)
        rows.append((now, runtime, runtime * draw.choice([1, 1, 3]), draw.choice([1, 1, 2, 4, 8])))
    return jobs_of(rows)


@pytest.mark.parametrize("policy", POOL_POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_pool_and_engine_agree_start_for_start(policy, seed):
    jobs = drawn_jobs(seed)

    assert engine_starts(jobs, 8, named(policy)) == pool_starts(jobs, 8, named(policy))


@pytest.mark.parametrize("changes", [{"reservations": 0}, {"strict": True}, {"aging_walltime": 20}])
def test_pool_and_engine_agree_on_the_knobs_of_the_expansion_order(changes):
    jobs, policy = drawn_jobs(7), replace(named("expansion"), **changes)

    assert pool_starts(jobs, 8, policy) != pool_starts(jobs, 8, named("expansion"))
    assert engine_starts(jobs, 8, policy) == pool_starts(jobs, 8, policy)


@pytest.mark.parametrize(
    "policy", [Policy(order=Order.FAIR), Policy(order=Order.FIFO, reservations=2)]
)
def test_the_pool_refuses_what_only_the_engine_can_do(policy):
    with pytest.raises(ValueError, match="a pool knows no order="):
        run_pool([], 8, policy)


def test_expansion_lets_short_jobs_pass_but_not_for_ever():
    jobs = jobs_of([(0, 100, 8), (1, 999, 8), *[(95 + 10 * turn, 10, 8) for turn in range(99)]])

    _, long, *short = pool_starts(jobs, 8, named("expansion"))

    assert short[0] == 100
    assert 100 < long < max(short)


def test_the_names_stand_for_the_textbook_policies():
    assert NAMED_POLICIES["fifo"] == Policy(order=Order.FIFO, strict=True)
    assert NAMED_POLICIES["firstfit"] == Policy(order=Order.FIFO, reservations=0)
    assert NAMED_POLICIES["easy"] == Policy(order=Order.FIFO, reservations=1)
