"""Streams through the engine with quotas: who is stopped for whom, and what is lost."""

from dataclasses import replace

import pytest

from scheduling.engine.policy import Order, Policy
from scheduling.simulation.replay import Site, run_engine
from scheduling.simulation.sharing import fair_quotas
from tests.simulation.streams import jobs_of, named
from tests.simulation.test_pool import drawn_jobs

FIFO = Policy(order=Order.FIFO, checkpoint_interval=3600)
HOUR = 3600


def runs_of(jobs, quotas, policy=FIFO, gpus=8):
    outcomes = run_engine(jobs, Site(1, gpus, quotas), policy, check=True)
    return [own and own.runs for own in outcomes]


def test_the_owner_takes_back_what_it_lent_and_the_borrower_goes_on_from_its_checkpoint():
    jobs = jobs_of([(0, 3 * HOUR, 8), (5400, HOUR, 4)], tenants="ab")

    borrower, owner = runs_of(jobs, {"a": 4, "b": 4})

    assert owner == ((5400, 5400 + HOUR),)
    # An hour of the first run was saved at its first checkpoint; half an hour is done again.
    assert borrower == ((0, 5400), (5400 + HOUR, 5400 + HOUR + 2 * HOUR))


def test_what_loses_least_work_is_stopped():
    jobs = jobs_of([(0, 3 * HOUR, 4), (1800, 3 * HOUR, 4), (4200, HOUR, 4)], tenants="aab")

    first, second, owner = runs_of(jobs, {"a": 4, "b": 4})

    assert owner[0][0] == 4200
    assert len(first) == 2  # ten minutes since its checkpoint, against forty of the other
    assert len(second) == 1


def test_nobody_is_stopped_without_quotas_or_for_more_than_the_quota():
    jobs = jobs_of([(0, 3 * HOUR, 8), (5400, HOUR, 6)], tenants="ab")

    alone = [((0, 3 * HOUR),), ((3 * HOUR, 4 * HOUR),)]
    assert runs_of(jobs, None) == runs_of(jobs, {"a": 4, "b": 4}) == alone


def test_a_job_stopped_too_often_is_left_alone():
    rows = [(0, 9 * HOUR, 8), *[(600 + hour * 2 * HOUR, HOUR, 4) for hour in range(3)]]
    jobs = jobs_of(rows, tenants="abbb")

    borrower, *owners = runs_of(jobs, {"a": 4, "b": 4}, replace(FIFO, max_preemptions=2))

    assert [len(own) for own in owners] == [1, 1, 1]
    assert len(borrower) == 3
    assert owners[2][0][0] == borrower[-1][1]


@pytest.mark.parametrize("name", ["firstfit", "easy", "expansion"])
@pytest.mark.parametrize("seed", range(4))
def test_cycles_that_are_spared_the_engine_decide_as_it_would(name, seed):
    jobs = [replace(job, tenant="aabc"[index % 4]) for index, job in enumerate(drawn_jobs(seed))]
    site = Site(1, 8, fair_quotas(jobs, 8))
    policy = replace(named(name), checkpoint_interval=20, max_grace=5)

    spared = run_engine(jobs, site, policy)

    assert sum(own.preemptions for own in spared) > 0
    assert run_engine(jobs, site, policy, spare=False) == spared


def test_a_stream_with_quotas_ends_whole_and_every_plan_is_sound():
    jobs = [
        replace(job, tenant="abc"[index % 3], estimate=job.runtime)
        for index, job in enumerate(drawn_jobs(3))
    ]

    outcomes = run_engine(
        jobs,
        Site(2, 4, fair_quotas(jobs, 8)),
        Policy(order=Order.EXPANSION, checkpoint_interval=20),
        check=True,
    )

    assert all(own.lost >= 0 and own.wait >= 0 for own in outcomes)
    assert sum(own.preemptions for own in outcomes) > 0
