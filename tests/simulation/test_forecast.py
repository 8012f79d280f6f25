"""Starts to come: ranges over runs of the cycle, with ends drawn from what was before."""

from textwrap import dedent

import pytest

from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.survey import take_snapshot
from scheduling.simulation.forecast import Effort, Forecast, Past, forecast, odds

MINUTE = 60
TO_THE_LIMIT = Past(anybody=(1000,))
USUAL = Effort()
ONE_NODE = """
node n1 8xA100
run a 1x8 on 1@n1 limit=60m
"""


def told(text, past=TO_THE_LIMIT, effort=USUAL):
    """The forecast of a scenario by the names of its jobs, in minutes."""
    world = read_scenario(dedent(text)).world
    names = world.names()
    found = forecast(take_snapshot(world, 0), world.policy, past, effort)
    spans = {
        names[job]: (own.earliest // MINUTE, own.latest // MINUTE)
        for job, own in found.spans.items()
    }
    return spans, {names[job]: at // MINUTE for job, at in found.earliest.items()}


def test_where_everybody_runs_to_the_limit_the_start_is_known():
    spans, _ = told(ONE_NODE + "job J 1x8 walltime=30m\njob K 1x8 walltime=30m")

    assert spans == {"J": (60, 60), "K": (90, 90)}


def test_a_range_spans_what_jobs_used_before():
    spans, _ = told(ONE_NODE + "job J 1x8 walltime=30m", Past(anybody=(250, 500, 1000)))

    assert spans == {"J": (15, 60)}


def test_what_a_running_job_has_used_already_is_not_drawn():
    text = "node n1 8xA100\nrun a 1x8 on 1@n1 since=-40m limit=60m\njob J 1x8 walltime=30m"

    spans, _ = told(text, Past(anybody=(250, 500, 750, 1000)))

    assert spans == {"J": (5, 20)}  # 45 and 60 minutes after the start of a


def test_a_tenants_own_past_counts_before_that_of_all():
    spans, _ = told(ONE_NODE + "job J 1x8 walltime=30m", Past(used={0: (500,)}, anybody=(1000,)))

    assert spans == {"J": (30, 30)}


def test_a_place_is_free_some_time_after_the_end():
    spans, _ = told(ONE_NODE + "job J 1x8 walltime=30m", Past(anybody=(1000,), lags=(120,)))

    assert spans == {"J": (62, 62)}


def test_where_nobody_knows_what_is_used_of_a_limit_run_times_are_drawn():
    spans, _ = told(ONE_NODE + "job J 1x8 walltime=30m", Past(seconds=(600, 1200, 9000)))

    assert spans == {"J": (10, 60)}


def test_nobody_knows_when_room_comes_that_nothing_ends():
    text = "node n1 8xA100\nrun a 1x8 on 1@n1\njob J 1x8 walltime=30m"

    assert told(text) == ({}, {})
    assert told(text, Past(seconds=(600,))) == ({"J": (10, 10)}, {})


def test_a_job_that_starts_in_some_runs_has_only_an_earliest():
    text = """
    node n1 8xA100
    run a 1x8 on 1@n1 limit=60m
    job E 1x8
    job J 1x8 walltime=30m
    policy order=fifo
    """

    spans, earliest = told(text, Past(anybody=(1000,), seconds=(60,)))
    assert (spans["J"], earliest) == ((61, 61), {})
    assert told(text, Past(anybody=(1000,)))[0] == {"E": (60, 60)}


def test_quota_that_comes_back_is_waited_for():
    text = """
    node n1 8xA100
    tenant A quota=A100:4
    run a 1x4 on 1@n1 tenant=A limit=60m
    job J 1x4 tenant=A walltime=30m
    """

    assert told(text)[0] == {"J": (60, 60)}


def test_a_job_that_waits_for_its_hour_starts_then():
    assert told("node n1 8xA100\njob J 1x8 not_before=+2h walltime=1h")[0] == {"J": (120, 120)}


def test_what_lies_beyond_the_effort_is_cut_off():
    text = ONE_NODE + "\n".join(f"job J{n} 1x8 walltime=30m" for n in range(4))
    world = read_scenario(text).world

    deep = told(text, effort=Effort(depth=2))[0]
    found = forecast(take_snapshot(world, 0), world.policy, TO_THE_LIMIT, Effort(cycles=3))

    assert deep == {"J0": (60, 60), "J1": (90, 90)}
    assert (len(found.spans), found.is_cut) == (2, True)


def test_few_cycles_take_larger_steps_and_say_so_with_wider_ranges():
    runs = "".join(f"run r{n} 1x1 on 1@n1 limit={n}0m\n" for n in range(1, 9))
    text = "node n1 8xA100\n" + runs + "job J 1x8 walltime=30m"

    assert told(text)[0] == {"J": (80, 80)}
    assert told(text, effort=Effort(cycles=3))[0] == {"J": (50, 80)}


def test_the_same_snapshot_gets_the_same_forecast():
    text = ONE_NODE + "job J 1x8 walltime=30m\njob K 1x8 walltime=90m"
    past = Past(anybody=tuple(range(1, 1000)))

    assert told(text, past) == told(text, past)


@pytest.mark.parametrize(("runs", "percent"), [(9, 80), (3, 50), (19, 90)])
def test_the_odds_of_a_range(runs, percent):
    assert odds(runs) == percent


def test_the_odds_are_right_where_the_draws_are():
    """Of many fresh ends, as many lie in the range of nine others as the formula says."""
    past = Past(anybody=tuple(range(1, 1000)))
    text = ONE_NODE.replace("60m", "1000m") + "job J 1x8 walltime=30m"
    world = read_scenario(text).world
    snapshot = take_snapshot(world, 0)

    def span(first, runs):
        found = forecast(snapshot, world.policy, past, Effort(runs=runs, first=first))
        return next(iter(found.spans.values()))

    inside = 0
    for trial in range(100):
        told, true = span(1000 + 10 * trial, 9), span(5000 + trial, 1).latest
        inside += told.earliest <= true <= told.latest

    assert 70 <= inside <= 90


def test_an_empty_queue_needs_no_forecast():
    world = read_scenario(ONE_NODE).world

    found = forecast(take_snapshot(world, 0), world.policy, TO_THE_LIMIT)

    assert found == Forecast(spans={}, earliest={}, is_cut=False)
