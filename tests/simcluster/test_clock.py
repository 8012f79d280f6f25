"""The clock and its doors."""

from datetime import UTC, datetime

import pytest

from simcluster.clock import Clock, Timers, rfc3339, seconds_of

CLOCK = "/simcluster/clock"
PODS = "/api/v1/namespaces/default/pods"


def test_a_frozen_clock_stands_still_and_steps(kube):
    before = kube.cluster.now()

    kube.step(90.5)

    assert before == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert kube.get(CLOCK)["now"] == "2026-01-05T08:01:30.500000Z"
    assert (kube.get(CLOCK)["frozen"], kube.get(CLOCK)["speed"]) == (True, 1.0)


def test_a_clock_set_to_a_speed_passes_that_many_seconds_per_second(kube):
    kube.cluster.set_clock(speed=500, frozen=False)

    first, second = kube.get(CLOCK), kube.get(CLOCK)

    wall = second["wall"] - first["wall"]
    simulated = seconds_of(second["now"]) - seconds_of(first["now"])
    assert (second["speed"], second["frozen"]) == (500.0, False)
    assert simulated == pytest.approx(wall * 500, abs=1)


@pytest.mark.parametrize("body", [{"speed": 0}, {"speed": 1001}, {"speed": "x"}, {"frozen": 1}])
def test_a_clock_refuses_what_is_no_rate(kube, body):
    assert kube.ask("PUT", CLOCK, body)[0] == 400


@pytest.mark.parametrize("body", [{}, {"seconds": -1}, {"seconds": "1"}])
def test_a_clock_steps_forward_only(kube, body):
    assert kube.ask("POST", f"{CLOCK}/step", body)[0] == 400


def test_the_controllers_act_while_the_clock_is_frozen_and_kubelets_do_not(kube, pod):
    kube.create(PODS, pod())

    made = kube.pods()["a"]

    assert (made["spec"]["nodeName"] != "", made["status"]["phase"]) == (True, "Pending")


def test_timers_go_by_due_then_rank_then_order_of_arrival():
    timers, told = Timers(), []
    for due, rank, name in ((2, 0, "d"), (1, 1, "b"), (1, 1, "c"), (1, 0, "a")):
        timers.add(due, rank, action=lambda name=name: told.append(name))
    timers.add(1, 0, action=lambda: told.append("never")).cancel()

    while timer := timers.pop_due(2):
        timer.action()

    assert told == ["a", "b", "c", "d"]


def test_what_is_due_sees_the_instant_at_which_it_was_due():
    clock = Clock(100.0, frozen=True)
    clock.advance(50)

    with clock.pinned(120.0):
        inside = clock.now()

    assert (inside, clock.now()) == (120.0, 150.0)


def test_stamps_are_whole_seconds_rounded_down():
    assert rfc3339(seconds_of("2026-01-05T08:00:00.999Z")) == "2026-01-05T08:00:00Z"
