"""The MIG geometry of each board: whole, consistent, and from somewhere."""

import pytest

from topology.catalog.boards import ModeChange, boards, instance_name
from topology.catalog.gpus import MODELS, find_model

BOARDS = boards()
GIB = 1024


@pytest.fixture(params=BOARDS.values(), ids=BOARDS)
def board(request):
    return request.param


def test_every_board_is_a_gpu_model_that_mig_divides_alike(board):
    model = find_model(board.key)

    assert (model.key, model.compute_slices, model.placement_units) == (
        board.key,
        board.compute_slices,
        board.placement_units,
    )


def test_every_board_says_where_its_numbers_come_from(board):
    assert board.sources
    assert board.status
    assert board.pci_ids


def test_what_is_not_known_to_be_true_is_listed(board):
    doubtful = "analogy" in board.status or "only" in board.status

    assert bool(board.unverified) >= doubtful


def test_numbers_tell_the_profiles_of_one_board_apart(board):
    profiles = board.profiles.values()

    assert len({own.profile_id for own in profiles}) == len(profiles)
    assert len({own.nvml_profile for own in profiles}) == len(profiles)


def test_a_profile_stays_on_its_board(board):
    for profile in board.profiles.values():
        assert max(profile.starts) + profile.width <= board.placement_units
        assert profile.most <= len(profile.starts)


def test_names_follow_the_drivers_rule(board):
    named = [instance_name(board, own, board.gb_in_names * GIB) for own in board.profiles.values()]

    assert named == list(board.profiles)


def test_boards_of_one_family_may_name_their_profiles_differently():
    gb200 = BOARDS["GB200-186GB"]

    named = [instance_name(gb200, own, 189 * GIB) for own in gb200.profiles.values()]

    assert named == [
        "1g.24gb",
        "1g.24gb+me",
        "1g.47gb",
        "2g.47gb",
        "3g.95gb",
        "4g.95gb",
        "7g.189gb",
    ]


def test_a_number_means_another_profile_on_another_board():
    numbered_five = {
        key: next(own.name for own in BOARDS[key].profiles.values() if own.profile_id == 5)
        for key in ("A100-40GB", "A30-24GB", "RTX-PRO-6000-BLACKWELL-96GB")
    }

    assert numbered_five == {
        "A100-40GB": "4g.20gb",
        "A30-24GB": "2g.12gb",
        "RTX-PRO-6000-BLACKWELL-96GB": "2g.48gb",
    }


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("A100-40GB", ModeChange.RESETS_GPU),
        ("A30-24GB", ModeChange.RESETS_GPU),
        ("H100-80GB", ModeChange.NO_RESET),
        ("RTX-PRO-6000-BLACKWELL-96GB", ModeChange.UNKNOWN),
    ],
)
def test_turning_mig_on_resets_older_boards_only(key, change):
    assert BOARDS[key].mode_change == change


def test_a_resource_name_has_no_plus():
    assert BOARDS["A100-40GB"].profiles["1g.5gb+me"].resource_name == "nvidia.com/mig-1g.5gb.me"


def test_every_name_of_a_model_finds_that_model():
    found = {name: find_model(name) for model in MODELS for name in (model.key, *model.products)}

    assert found == {name: model for model in MODELS for name in (model.key, *model.products)}
