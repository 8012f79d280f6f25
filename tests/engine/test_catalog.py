"""GPU models, MIG layouts and the topology quality: what the catalogue knows."""

from fractions import Fraction

import pytest

from topology.catalog.gpus import MODELS, find_model
from topology.catalog.links import Closeness, quality
from topology.catalog.mig import (
    ImpossibleLayoutError,
    MigInstance,
    check_layout,
    find_layout,
    profiles,
    useful_starts,
)

A100 = find_model("A100-40GB")
LAYOUTS = {
    "seven ones": (["1g.5gb"] * 7, {(start, "1g.5gb") for start in range(7)}),
    "a three and a four": (["3g.20gb", "4g.20gb"], {(0, "4g.20gb"), (4, "3g.20gb")}),
    "two threes and a one": (["3g.20gb", "3g.20gb", "1g.5gb"], None),
    "four doubles and three ones": (["1g.10gb"] * 4 + ["1g.5gb"] * 3, None),
    "three twos and a one": (
        ["2g.10gb"] * 3 + ["1g.5gb"],
        {(0, "2g.10gb"), (2, "2g.10gb"), (4, "2g.10gb"), (6, "1g.5gb")},
    ),
    "two fours": (["4g.20gb"] * 2, None),
    "a three and two twos": (
        ["3g.20gb", "2g.10gb", "2g.10gb"],
        {(0, "2g.10gb"), (2, "2g.10gb"), (4, "3g.20gb")},
    ),
    "two with media engines": (["1g.5gb", "1g.5gb", "1g.5gb+me", "1g.5gb+me"], None),
    "a profile of another board": (["3g.40gb"], None),
}


@pytest.mark.parametrize(("wanted", "placed"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_board_holds_the_layouts_that_it_can(wanted, placed):
    found = find_layout(A100, wanted)

    assert (found and {(own.start, own.profile) for own in found}) == placed


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([(0, "4g.20gb"), (4, "4g.20gb")], "4g.20gb cannot start at 4, only at 0"),
        ([(0, "3g.20gb"), (4, "3g.20gb"), (6, "1g.5gb")], "1g.5gb@6 does not fit"),
        ([(0, "3g.40gb")], "A100-40GB has no profile 3g.40gb"),
    ],
)
def test_a_layout_that_cannot_be_names_the_profile(layout, message):
    with pytest.raises(ImpossibleLayoutError) as caught:
        check_layout(A100, [MigInstance(start, profile) for start, profile in layout])

    assert str(caught.value) == message


def test_a_small_board_has_quarters():
    a30 = find_model("NVIDIA A30")

    assert find_layout(a30, ["2g.12gb", "1g.6gb", "1g.6gb"]) is not None
    assert find_layout(a30, ["1g.6gb+me", "2g.12gb+me"]) is None


def test_how_many_more_instances_fit_beside_others():
    assert useful_starts(A100, "1g.5gb", (MigInstance(4, "3g.20gb"),)) == 4


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("H200", "H200-141GB"),
        ("nvidia a100-sxm4-80gb", "A100-80GB"),
        ("A100", None),
        ("H100-8", "H100-80GB"),
        ("NVIDIA-H800", "H100-80GB"),
        ("NVIDIA-A100-SXM4-40GB-SHARED", "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me-SHARED", "A100-80GB"),
        ("RTX 3090", "RTX-3090-24GB"),
        ("-SHARED", None),
        ("quantum", None),
    ],
)
def test_a_model_is_found_by_key_product_or_unique_beginning(word, key):
    model = find_model(word)

    assert (model and model.key) == key


def test_every_layout_of_one_full_instance_is_possible():
    for model in MODELS:
        for profile in profiles(model).values():
            assert find_layout(model, [profile.name]) is not None


@pytest.mark.parametrize(
    ("closeness", "want"),
    [
        (Closeness(Fraction(1), None, None, Fraction(1)), 100),
        (Closeness(Fraction(0), None, None, Fraction(1)), 17),
        (Closeness(Fraction(1, 2), Fraction(1, 2), Fraction(1), None), 58),
        (Closeness(None, None, None, None), 0),
    ],
)
def test_quality_is_the_weighted_mean_of_what_is_known(closeness, want):
    assert quality(closeness) == want
