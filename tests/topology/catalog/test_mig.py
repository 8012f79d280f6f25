"""Which MIG instances go together, in which order the driver can create them, and why not."""

import json
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.boards import boards
from topology.catalog.gpus import MODELS, find_model
from topology.catalog.mig import (
    Cause,
    ImpossibleLayoutError,
    MigInstance,
    Misfit,
    check_layout,
    creation_order,
    find_layout,
    find_misfit,
    layout_order,
    place_by_driver,
    profiles,
)

FAMILIES = json.loads(Path(__file__).parents[2].joinpath("data/gpu/mig_families.json").read_text())
A100 = find_model("A100-40GB")
WITH_MIG = [model for model in MODELS if model.has_mig]
SEVEN = [model for model in WITH_MIG if model.compute_slices == 7]
BOARD = pytest.mark.parametrize("model", WITH_MIG, ids=lambda model: model.key)
SEVEN_SLICES = pytest.mark.parametrize("model", SEVEN, ids=lambda model: model.key)


def family_of(model):
    """The derived family of a board, and what it calls each of the board's profiles."""
    board = boards()[model.key]
    if model.compute_slices == 7:
        names = {}
        for profile in board.profiles.values():
            double = profile.compute_slices == 1 and profile.width == 2
            media = "+me" if profile.name.endswith("+me") else ""
            names[profile.name] = f"{profile.compute_slices}g{'.double' if double else media}"
        return FAMILIES["seven_slice"], names
    own = {name: name for name in board.profiles if not name.endswith("+gfx")}
    return FAMILIES["a30" if model.key == "A30-24GB" else "rtx_pro_6000_compute_only"], own


def brute_force(model, names):
    """Every multiset of profiles that stands somewhere: all instances, on and on, one at a time."""
    known = profiles(model)
    single = [MigInstance(start, name) for name in names for start in known[name].starts]
    found, layouts = {frozenset()}, {()}
    while layouts:
        layouts = {
            (*layout, instance)
            for layout in layouts
            for instance in single
            if (not layout or instance > layout[-1]) and is_valid(model, (*layout, instance))
        }
        found |= {as_set(instance.profile for instance in layout) for layout in layouts}
    return found - {frozenset()}


def is_valid(model, layout):
    try:
        check_layout(model, layout)
    except ImpossibleLayoutError:
        return False
    return True


def as_set(names):
    return frozenset(Counter(names).items())


def maximal(sets):
    counters = [Counter(dict(own)) for own in sets]
    return {
        frozenset(own.items()) for own in counters if not any(own < other for other in counters)
    }


@BOARD
def test_maximal_sets_found_by_brute_force_are_those_of_the_family(model):
    family, names = family_of(model)

    found = {
        frozenset((names[name], count) for name, count in own) for own in brute_force(model, names)
    }

    assert len(found | {frozenset()}) == family["distinct_multisets"]
    assert maximal(found) == {frozenset(own.items()) for own in family["maximal_multisets"]}


@BOARD
def test_the_search_finds_exactly_the_sets_that_brute_force_finds(model):
    _, names = family_of(model)
    possible = brute_force(model, names)
    small = [
        wanted
        for size in range(1, 6)
        for wanted in combinations_with_replacement(sorted(names), size)
    ]

    found = {as_set(wanted) for wanted in small if find_layout(model, wanted) is not None}

    assert found == {own for own in possible if sum(count for _, count in own) < 6}


@SEVEN_SLICES
def test_the_driver_can_create_every_maximal_set_but_some_with_the_double_memory_one(model):
    _, names = family_of(model)
    double = next(name for name, own in names.items() if own == "1g.double")
    wanted = {
        own: list(Counter(dict(own)).elements()) for own in maximal(brute_force(model, names))
    }

    orders = {own: creation_order(model, names) for own, names in wanted.items()}

    assert all(double in wanted[own] for own, order in orders.items() if order is None)
    assert sum(order is None for order in orders.values()) == 14
    for own, order in orders.items():
        placed = place_by_driver(model, [profiles(model)[name].profile_id for name in order or ()])
        assert order is None or as_set(instance.profile for instance in placed) == own


# Five of the runs in NVIDIA's MIG guide; the sixth is refused.
@pytest.mark.parametrize(
    ("ids", "starts"),
    [
        ([9, 9], [4, 0]),
        ([19, 14, 5], [6, 4, 0]),
        ([9, 19, 14, 19], [4, 0, 2, 1]),
        ([14, 19, 19, 19, 19, 19], [4, 6, 0, 1, 2, 3]),
        ([19] * 7, [6, 4, 5, 0, 1, 2, 3]),
    ],
)
def test_the_driver_creates_what_the_guide_shows(ids, starts):
    placed = place_by_driver(A100, ids)

    assert [own.start for own in placed] == starts
    check_layout(A100, placed)


def test_the_driver_refuses_a_three_after_ones_and_a_two():
    with pytest.raises(ImpossibleLayoutError, match=r"3g\.20gb: insufficient resources"):
        place_by_driver(A100, [19, 19, 14, 9])

    assert creation_order(A100, ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"])[0] == "3g.20gb"


def test_two_slices_of_20_gb_are_two_of_number_nine_and_never_two_of_number_five():
    wanted = ["3g.20gb", "3g.20gb"]

    assert [profiles(A100)[name].profile_id for name in creation_order(A100, wanted)] == [9, 9]
    assert place_by_driver(A100, [9, 9]) == (MigInstance(4, "3g.20gb"), MigInstance(0, "3g.20gb"))
    with pytest.raises(ImpossibleLayoutError, match=r"4g\.20gb: insufficient resources"):
        place_by_driver(A100, [5, 5])


def test_a_number_of_another_board_is_refused():
    with pytest.raises(ImpossibleLayoutError, match="no profile of number 64"):
        place_by_driver(A100, [64])


MISFITS = {
    "two fours": (["4g.20gb"] * 2, Misfit("A100-40GB", "4g.20gb", Cause.TOO_MANY, 2, 1)),
    "nine of eight memory slices": (
        ["1g.5gb", "3g.20gb", "3g.20gb"],
        Misfit("A100-40GB", "1g.5gb", Cause.MEMORY_SLICES, 9, 8),
    ),
    "eleven of eight memory slices": (
        ["1g.10gb"] * 4 + ["1g.5gb"] * 3,
        Misfit("A100-40GB", "1g.5gb", Cause.MEMORY_SLICES, 11, 8),
    ),
    "two with media engines": (
        ["1g.5gb+me"] * 2,
        Misfit("A100-40GB", "1g.5gb+me", Cause.TOO_MANY, 2, 1),
    ),
    "a profile of another board": (
        ["1g.5gb", "3g.40gb"],
        Misfit("A100-40GB", "3g.40gb", Cause.NO_SUCH_PROFILE),
    ),
    "eight ones": (["1g.5gb"] * 8, Misfit("A100-40GB", "1g.5gb", Cause.TOO_MANY, 8, 7)),
    "eight compute slices": (
        ["4g.20gb", "3g.20gb", "1g.5gb"],
        Misfit("A100-40GB", "1g.5gb", Cause.COMPUTE_SLICES, 8, 7),
    ),
}


@pytest.mark.parametrize(("wanted", "misfit"), MISFITS.values(), ids=MISFITS)
def test_what_has_no_place_is_named_with_its_reason(wanted, misfit):
    assert find_misfit(A100, wanted) == misfit


def test_what_stands_already_may_leave_no_place():
    standing = [MigInstance(0, "1g.5gb"), MigInstance(6, "1g.5gb")]

    assert find_misfit(A100, ["3g.20gb"], standing) == Misfit(
        "A100-40GB", "3g.20gb", Cause.NO_PLACE
    )
    assert find_misfit(A100, ["2g.10gb", "2g.10gb"], standing) is None


@pytest.mark.parametrize(
    "standing",
    [
        [MigInstance(0, "4g.20gb"), MigInstance(0, "3g.20gb")],
        [MigInstance(0, "3g.40gb")],
    ],
)
def test_nothing_goes_beside_what_cannot_stand(standing):
    assert find_layout(A100, ["1g.5gb"], standing) is None
    assert creation_order(A100, ["1g.5gb"], standing) is None


def test_what_no_board_has_cannot_be_created():
    assert creation_order(A100, ["3g.40gb"]) is None
    assert creation_order(find_model("L40S"), ["1g.5gb"]) is None
    assert find_layout(A100, ["3g.40gb"]) is None


def test_media_engines_run_out():
    a30 = find_model("A30")

    assert find_misfit(a30, ["2g.12gb+me", "1g.6gb+me"]).cause == Cause.ENGINES


def test_a_board_without_mig_holds_nothing():
    l40s = find_model("L40S")

    assert find_misfit(l40s, ["1g.10gb"]) == Misfit("L40S-48GB", "1g.10gb", Cause.NO_MIG)
    assert find_layout(l40s, ["1g.10gb"]) is None


@given(st.data())
def test_a_set_has_a_layout_or_a_misfit_and_what_stands_keeps_standing(data):
    model = data.draw(st.sampled_from(WITH_MIG))
    names = st.lists(st.sampled_from(sorted(profiles(model))), max_size=5)
    standing = find_layout(model, data.draw(names)) or ()
    wanted = data.draw(names)

    layout = find_layout(model, wanted, standing)
    misfit = find_misfit(model, wanted, standing)

    assert (layout is None) == (misfit is not None)
    if layout is None:
        assert misfit.profile in wanted
        return
    check_layout(model, layout)
    assert set(standing) <= set(layout)
    assert Counter(own.profile for own in layout) == Counter(wanted) + Counter(
        own.profile for own in standing
    )
    sizes = [profiles(model)[own.profile].size for own in layout_order(model, layout)]
    assert sizes == sorted(sizes, reverse=True)
