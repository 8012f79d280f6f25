"""What room is worth, worked out by hand."""

import numpy as np
import pytest

from scheduling.engine.fragmentation import Shape
from scheduling.engine.worth import IDLE_CPU, SPARE_CPU, Worth, expected_of, spare

HALF = Shape(4_000, 500, 1, ()), 10
PAIR = Shape(8_000, 1_000, 2, ()), 20
NAMED = Shape(4_000, 1_000, 1, ("X",)), 10
CORES = Shape(2_000, 0, 0, ()), 0


def worth_of(expected, nodes):
    """The worth of each node, weighed on all of them. nodes: (model, cpu, memory, gpus)."""
    worth = Worth(expected, ["X", "Y"])
    model, cpu, memory, gpus = (np.array(column) for column in zip(*nodes, strict=True))
    room, allowed = worth.kinds.room(gpus), worth.allowed(cpu, memory)
    worth.weigh(model, room, allowed)
    return worth.of(model, room, allowed).tolist()


def test_what_could_be_used_counts_and_what_could_not_counts_five_times_against_it():
    # Both shapes are as scarce as can be, so they weigh 3 to 1. CPU lets two halves in: 1,000 milli
    # of use; the pair finds one whole GPU only, so to it all 1,600 are wasted.
    worth = worth_of([(HALF, 3), (PAIR, 1)], [(1, 10_000, 100, [1_000, 600])])

    assert worth == [750_000 * 100 * 1_000 - 250_000 * 500 * 1_600]


def test_what_lies_on_gpus_that_are_too_small_is_wasted():
    worth = worth_of([(HALF, 1)], [(1, 10_000, 100, [1_000, 100])])

    assert worth == [1_000_000 * (100 * 1_000 - 500 * 100)]


@pytest.mark.parametrize(
    ("cpu", "memory", "used"), [(4_000, 100, 500), (10_000, 10, 500), (10_000, 9, 0)]
)
def test_cpu_and_memory_bound_what_could_be_used(cpu, memory, used):
    (worth,) = worth_of([(HALF, 1)], [(1, cpu, memory, [1_000, 0])])

    assert worth == 1_000_000 * (100 * used - (0 if used else 500 * 1_000))


def test_a_shape_counts_more_where_room_for_it_is_scarce():
    # Named members can use 4,000 of 20,000 milli, halves all of it: they weigh five times as much.
    nodes = [(0, 10**6, 10**6, [1_000] * 4 + [0] * 12), (1, 10**6, 10**6, [1_000] * 16)]

    worth = worth_of([(HALF, 1), (NAMED, 1)], nodes)

    halves, named = 166_666, 833_333
    assert worth == [
        (halves + named) * 100 * 4_000,
        halves * 100 * 16_000 - named * 500 * 16_000,
    ]


def test_members_without_gpus_are_worth_their_cpu():
    assert worth_of([(CORES, 1)], [(0, 5_000, 0, [0])]) == [1_000_000 * 4_000]


def test_members_with_gpus_leave_most_cpu_and_others_least():
    left = np.array([100, 200])

    assert spare(left, np.array([1, 0])).tolist() == [100 * SPARE_CPU, -200 * IDLE_CPU]


def test_what_was_asked_for_is_counted():
    assert expected_of([PAIR, HALF, PAIR]) == [(HALF, 1), (PAIR, 2)]
