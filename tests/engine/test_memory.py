"""What is handed on from cycle to cycle changes no plan, whatever was planned before."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.cycle import plan_cycle
from scheduling.engine.jobs import Level
from scheduling.engine.memory import Memory
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import read_scenario
from scheduling.simulation.run import simulate
from tests.engine.strategies import snapshots
from tests.engine.worlds import Writer


@given(st.lists(snapshots(), min_size=2, max_size=4))
def test_any_memory_gives_the_plan_of_none(one_after_another):
    memory = Memory()

    for snapshot in one_after_another:
        assert plan_cycle(snapshot, Policy(), memory) == plan_cycle(snapshot, Policy())


@given(snapshots(), st.integers(0, 7), st.integers(0, 19))
def test_memory_of_the_same_hardware_gives_the_plan_of_none(snapshot, job, gpu):
    memory = Memory()
    plan_cycle(snapshot, Policy(), memory)
    milli = snapshot.gpu_free_milli.copy()
    milli[gpu % len(milli)] = 0
    pending = [own for index, own in enumerate(snapshot.pending) if index != job]
    later = replace(snapshot, taken_at=160, gpu_free_milli=milli, pending=tuple(reversed(pending)))

    assert plan_cycle(later, Policy(), memory) == plan_cycle(later, Policy())


@pytest.mark.parametrize("seed", range(300, 320))
def test_one_memory_for_a_whole_run_gives_every_plan_alike(seed):
    memory, cycles = Memory(), []

    def watch(snapshot, policy, plan):
        cycles.append(plan_cycle(snapshot, policy, memory) == plan)

    list(simulate(read_scenario(Writer(seed).text()), until=3_600, watch=watch))

    assert cycles
    assert all(cycles)


def test_look_ups_are_handed_on_only_while_the_hardware_is_the_same():
    scenario = read_scenario("node a 4xA100\nnode b 4xA100\njob j 2x4")
    snapshot, memory = scenario.snapshot(), Memory()
    plan_cycle(snapshot, Policy(), memory)
    claims = memory.claims

    plan_cycle(replace(snapshot, taken_at=snapshot.taken_at + 60), Policy(), memory)
    assert memory.claims is claims

    faulty = snapshot.gpu_open & (np.arange(8) != 3)
    plan = plan_cycle(replace(snapshot, gpu_open=faulty), Policy(), memory)
    assert memory.claims is not claims
    assert not plan.starts


def test_a_wish_that_relaxes_with_time_is_looked_at_anew():
    text = "node a 4xA100 rack=r\nnode b 4xA100 rack=s\njob j 2x4 required=rack patience=10m"
    snapshot, memory = read_scenario(text).snapshot(), Memory()
    assert snapshot.pending[0].required == Level.RACK
    assert not plan_cycle(snapshot, Policy(), memory).starts

    later = replace(snapshot, taken_at=snapshot.taken_at + 601)

    assert plan_cycle(later, Policy(), memory).starts
