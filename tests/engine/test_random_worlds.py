"""Random clusters run for hours: no plan breaks a rule, and each is made twice alike."""

import pytest

from scheduling.engine.codec import decode, encode
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.plan import Plan, Preempt
from scheduling.engine.scenario import read_scenario
from scheduling.engine.snapshot import Snapshot
from scheduling.simulation.run import simulate
from tests.engine.worlds import Writer

TWO_HOURS = 2 * 3600


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_of_a_run_breaks_a_rule(seed):
    scenario = read_scenario(Writer(seed).text())

    lines = list(simulate(scenario, until=TWO_HOURS, check=True))

    assert lines


@pytest.mark.parametrize("seed", range(40, 60))
def test_a_plan_is_the_same_bytes_from_a_recorded_snapshot(seed):
    scenario = read_scenario(Writer(seed).text())
    snapshot, policy = scenario.snapshot(), scenario.world.policy

    plan = plan_cycle(snapshot, policy)
    again = plan_cycle(decode(encode(snapshot), Snapshot), policy)

    assert encode(again) == encode(plan)
    assert decode(encode(plan), Plan) == plan


@pytest.mark.parametrize("seed", range(60, 100))
def test_no_two_jobs_stop_each_other(seed):
    scenario = read_scenario(Writer(seed).text())
    stopped = set()

    def watch(_snapshot, _policy, plan):
        stopped.update((stop.job, stop.on_behalf_of) for stop in plan.of(Preempt))

    list(simulate(scenario, until=TWO_HOURS, watch=watch))

    assert not {(claimant, victim) for victim, claimant in stopped} & stopped
