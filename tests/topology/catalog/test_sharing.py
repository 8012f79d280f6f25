"""What each way of sharing a GPU keeps apart."""

from itertools import product

import pytest

from topology.catalog.gpus import find_model
from topology.catalog.sharing import (
    SHARINGS,
    SharingMode,
    Wall,
    may_share_a_node,
    most_shares,
)

MODE = pytest.mark.parametrize("mode", SharingMode)


@MODE
def test_every_mode_is_described(mode):
    assert SHARINGS[mode].mode == mode


@MODE
def test_strangers_share_only_what_hardware_keeps_apart(mode):
    sharing = SHARINGS[mode]

    assert sharing.for_strangers == (sharing.isolation.weakest >= Wall.HARDWARE)


def test_modes_are_listed_from_most_to_least_kept_apart():
    walls = [
        (own.memory_size, own.compute, own.faults)
        for own in (SHARINGS[mode].isolation for mode in SharingMode)
    ]

    assert walls == sorted(walls, reverse=True)


@pytest.mark.parametrize(
    ("mode", "memory_size", "faults"),
    [
        (SharingMode.TIME_SLICING, Wall.NONE, Wall.NONE),
        (SharingMode.MPS, Wall.DRIVER, Wall.NONE),
        (SharingMode.HAMI, Wall.INTERCEPTED, Wall.NONE),
        (SharingMode.VOLCANO_VGPU, Wall.INTERCEPTED, Wall.NONE),
        (SharingMode.MIG, Wall.HARDWARE, Wall.HARDWARE),
    ],
)
def test_what_holds_memory_and_faults(mode, memory_size, faults):
    isolation = SHARINGS[mode].isolation

    assert (isolation.memory_size, isolation.faults) == (memory_size, faults)


@pytest.mark.parametrize(
    ("mode", "equal_shares", "metrics", "needs_empty_gpu"),
    [
        (SharingMode.EXCLUSIVE, True, True, False),
        (SharingMode.MIG, False, True, True),
        (SharingMode.MPS, True, False, True),
        (SharingMode.HAMI, False, True, False),
        (SharingMode.VOLCANO_VGPU, False, True, False),
        (SharingMode.TIME_SLICING, True, False, False),
    ],
)
def test_what_each_mode_means_for_those_who_use_it(mode, equal_shares, metrics, needs_empty_gpu):
    sharing = SHARINGS[mode]

    assert (sharing.equal_shares, sharing.metrics, sharing.needs_empty_gpu) == (
        equal_shares,
        metrics,
        needs_empty_gpu,
    )


def test_walls_are_ordered_by_what_holds_them():
    assert sorted(Wall) == [
        Wall.NONE,
        Wall.INTERCEPTED,
        Wall.DRIVER,
        Wall.HARDWARE,
        Wall.WHOLE,
    ]


def test_slices_cannot_talk_over_nvlink():
    without = [mode for mode in SharingMode if not SHARINGS[mode].peer_to_peer]

    assert without == [SharingMode.MIG]


@pytest.mark.parametrize(
    ("mode", "model", "most"),
    [
        (SharingMode.EXCLUSIVE, "H100-80GB", 1),
        (SharingMode.MIG, "H100-80GB", 7),
        (SharingMode.MIG, "A30", 4),
        (SharingMode.MIG, "T4", 0),
        (SharingMode.MPS, "A100-80GB", 48),
        (SharingMode.MPS, "V100-16GB", 16),
        (SharingMode.HAMI, "T4", 10),
        (SharingMode.TIME_SLICING, "T4", None),
    ],
)
def test_how_many_tenants_a_gpu_holds(mode, model, most):
    assert most_shares(mode, find_model(model)) == most


def test_which_modes_stand_side_by_side_on_a_node():
    pairs = {
        frozenset({one, other})
        for one, other in product(SharingMode, repeat=2)
        if one != other and may_share_a_node(one, other)
    }

    assert pairs == {
        frozenset({SharingMode.EXCLUSIVE, SharingMode.MIG}),
        frozenset({SharingMode.TIME_SLICING, SharingMode.MIG}),
    }
    assert all(may_share_a_node(mode, mode) for mode in SharingMode)
