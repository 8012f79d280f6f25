"""What a node's free room is lost for, worked out by hand."""

import numpy as np

from scheduling.engine.fragmentation import Fragmentation, Shape


def test_gpus_with_too_little_left_are_lost_and_the_others_are_not():
    waste = Fragmentation([(Shape(1_000, 500, 1, ()), 10)], ["X"])

    wasted = waste.of(0, np.array([8_000]), np.array([[1_000, 300, 0, 0, 0, 0, 0, 0]]))

    assert wasted.tolist() == [10 * 300]


def test_all_that_is_there_is_lost_for_who_lacks_cpu():
    waste = Fragmentation([(Shape(9_000, 500, 1, ()), 10)], ["X"])

    wasted = waste.of(0, np.array([8_000]), np.array([[1_000, 300, 0, 0, 0, 0, 0, 0]]))

    assert wasted.tolist() == [10 * 1_300]
