"""The figures of a run, worked out by hand."""

from dataclasses import asdict

import pytest

from scheduling.simulation.metrics import measure, percentile, size_class
from scheduling.simulation.outcome import Outcome, StreamJob
from scheduling.simulation.pool import run_pool
from scheduling.simulation.sharing import Sharing, fair_quotas
from tests.simulation.streams import jobs_of, named
from tests.simulation.test_pool import ONE


def rounded(figures):
    return {name: round(value, 2) for name, value in asdict(figures).items()}


def test_the_figures_of_a_run_are_those_worked_out_by_hand():
    metrics = measure(run_pool(ONE, 8, named("easy")), 8)

    assert rounded(metrics.all.wait) == {"mean": 28.33, "p50": 0, "p90": 82, "p99": 82}
    assert rounded(metrics.all.completion) == {"mean": 78.33, "p50": 60, "p90": 133, "p99": 133}
    assert rounded(metrics.all.slowdown) == {"mean": 2.04, "p50": 1.0, "p90": 5.1, "p99": 5.1}
    assert round(metrics.utilisation, 4) == 0.6696
    assert round(metrics.jain, 4) == 0.9571
    assert (metrics.refused, metrics.total_preemptions, metrics.total_lost_gpu_hours) == (0, 0, 0)


def test_figures_are_told_by_size_and_by_tenant():
    metrics = measure(run_pool(ONE, 8, named("easy")), 8)

    assert {name: own.jobs for name, own in metrics.by_size.items()} == {"1": 2, "2-7": 4}
    assert {name: round(own.wait.mean, 2) for name, own in metrics.by_tenant.items()} == {
        "a": 18.33,
        "b": 38.33,
    }


def test_a_tenant_is_compared_with_itself_alone_on_its_quota():
    metrics = measure(run_pool(ONE, 8, named("easy")), 8)

    assert fair_quotas(ONE, 8) == {"a": 6, "b": 2}
    assert metrics.sharing == {
        "a": Sharing(quota=6, jobs=3, shared_wait=55 / 3, alone_wait=155 / 3),
        "b": Sharing(quota=2, jobs=3, shared_wait=115 / 3, alone_wait=33),
    }
    assert [name for name, own in metrics.sharing.items() if own.is_worse_off] == ["b"]


def test_gpus_are_stranded_while_jobs_wait_and_only_then():
    jobs = jobs_of([(0, 3600, 6), (1800, 3600, 8)])

    metrics = measure(run_pool(jobs, 8, named("easy")), 8)

    assert metrics.stranded_gpu_hours == 1.0  # two GPUs for half an hour
    assert metrics.wide_wait == 1800


def test_a_job_that_was_stopped_waited_all_the_time_that_is_not_its_run_time():
    job = StreamJob(submit=0, runtime=7200, gpus=4, estimate=7200)
    twice = Outcome(job, ((600, 4800), (6000, 9600)))  # 4,200 s, of which 3,600 were saved

    metrics = measure([twice, None], 8)

    assert (twice.start, twice.completion, twice.wait, twice.preemptions) == (600, 9600, 2400, 1)
    assert twice.lost == 4 * 600
    assert (metrics.refused, metrics.total_preemptions) == (1, 1)
    assert metrics.total_lost_gpu_hours == metrics.all.lost_gpu_hours.mean == 4 * 600 / 3600
    assert metrics.stranded_gpu_hours == 8 * (600 + 1200) / 3600


def test_slowdown_counts_short_jobs_as_ten_seconds():
    job = StreamJob(submit=0, runtime=1, gpus=1, estimate=1)

    assert Outcome(job, ((0, 1),)).slowdown == 1
    assert Outcome(job, ((19, 20),)).slowdown == 2


def test_nothing_is_said_of_a_run_without_jobs():
    with pytest.raises(ValueError, match="no job ran"):
        measure([None], 8)


@pytest.mark.parametrize(
    ("gpus", "name"), [(1, "1"), (2, "2-7"), (7, "2-7"), (8, "8-31"), (31, "8-31"), (32, "32+")]
)
def test_jobs_are_classed_by_their_gpus(gpus, name):
    assert size_class(StreamJob(0, 1, gpus, 1)) == name


@pytest.mark.parametrize(("percent", "want"), [(1, 10), (50, 20), (51, 30), (99, 40)])
def test_percentiles_go_by_nearest_rank(percent, want):
    assert percentile([10, 20, 30, 40], percent) == want
