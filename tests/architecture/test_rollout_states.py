"""The life of a rollout and of the change of a node is one list, and every life comes to an end."""

import pytest

from topology.states import (
    ACTIVE,
    RESTING,
    ROLLOUT_ENDED,
    ROLLOUT_TRANSITIONS,
    STEPS,
    TIMED,
    RolloutState,
    Step,
)


def reached(table, start):
    found, front = set(), {start}
    while front:
        found |= front
        front = {after for state in front for after in table[state]} - found
    return found


@pytest.mark.parametrize(
    ("table", "start", "states"),
    [(ROLLOUT_TRANSITIONS, RolloutState.RUNNING, RolloutState), (STEPS, Step.WAITING, Step)],
)
def test_every_state_is_reached_from_the_first(table, start, states):
    assert set(table) == set(states) == reached(table, start)


@pytest.mark.parametrize("state", RolloutState)
def test_every_rollout_can_still_come_to_an_end(state):
    assert reached(ROLLOUT_TRANSITIONS, state) & ROLLOUT_ENDED


@pytest.mark.parametrize("step", Step)
def test_from_every_step_a_node_can_still_be_as_before(step):
    assert Step.REVERTED in reached(STEPS, step)


def test_the_way_back_begins_with_a_cordon_from_wherever_something_was_touched():
    touched = set(Step) - {Step.WAITING, Step.REVERTED}

    assert {step for step in touched if Step.CORDON not in STEPS[step] | {step}} == set()
    assert set(Step) == ACTIVE | RESTING
    assert TIMED < ACTIVE
