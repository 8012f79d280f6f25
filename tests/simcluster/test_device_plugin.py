"""What a device plugin gives to a pod."""

import random

import pytest

from simcluster.devices import DevicePlugin

NODE = {"metadata": {"name": "a", "labels": {}}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
LIMITS = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}
POD = {
    "metadata": {"annotations": {"muster.dev/devices": "4,5,6"}},
    "spec": {"containers": [LIMITS]},
}


def that_chooses(seed):
    return DevicePlugin(random.Random(seed))  # noqa: S311 - no secret


def drawn(seed):
    return that_chooses(seed).choose(POD, NODE)


def test_one_that_heeds_wishes_gives_what_the_pod_names():
    assert DevicePlugin().choose(POD, NODE) == ["4", "5", "6"]


def test_one_that_chooses_by_itself_chooses_the_same_again_for_the_same_seed():
    assert [drawn(seed) for seed in range(20)] == [drawn(seed) for seed in range(20)]


@pytest.mark.parametrize("seed", range(3))
def test_it_gives_as_many_as_were_asked_for_and_asks_for_no_names(seed):
    given = {device for turn in range(20) for device in drawn(100 * seed + turn)}

    assert len(drawn(seed)) == 3
    assert given - {"4", "5", "6"}


def test_it_gives_nothing_where_too_few_are_free():
    few = {**NODE, "status": {"allocatable": {"nvidia.com/gpu": "2"}}}

    assert that_chooses(1).choose(POD, few) is None
