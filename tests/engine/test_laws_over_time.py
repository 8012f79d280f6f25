"""Laws over the hours of random worlds: whose jobs may be stopped, what a promise is worth."""

from graphlib import TopologicalSorter

import pytest

from scheduling.engine.plan import Preempt
from scheduling.engine.scenario import read_scenario
from scheduling.simulation.run import simulate
from tests.engine.laws import Promises, unlawful_stops
from tests.engine.worlds import HonestWriter, Writer

HOUR = 3600


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_a_job_is_stopped_only_for_who_has_a_right_to_its_devices(seed):
    wrong = []

    def watch(snapshot, policy, plan):
        wrong.extend(unlawful_stops(snapshot, policy, plan))

    list(simulate(read_scenario(Writer(seed).text()), until=2 * HOUR, watch=watch))

    assert wrong == []


@pytest.mark.parametrize("seed", range(1060, 1100))
def test_jobs_never_displace_each_other_in_a_circle(seed):
    stopped_for = {}

    def watch(_snapshot, _policy, plan):
        for stop in plan.of(Preempt):
            stopped_for.setdefault(stop.job, set()).add(stop.on_behalf_of)

    list(simulate(read_scenario(Writer(seed).text()), until=2 * HOUR, watch=watch))

    TopologicalSorter(stopped_for).prepare()  # CycleError names the circle


@pytest.mark.parametrize("seed", range(60))
def test_the_start_promised_to_who_is_first_never_slips_while_limits_are_honest(seed):
    promises = Promises()

    list(simulate(read_scenario(HonestWriter(seed).text()), until=8 * HOUR, watch=promises.watch))

    assert promises.broken == []
