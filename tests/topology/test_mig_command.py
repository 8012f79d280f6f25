"""`manage.py mig`: what it prints, and how it ends."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


def mig(*words):
    """What the command prints, what it complains of, and its exit status."""
    out, err, status = StringIO(), StringIO(), 0
    try:
        call_command("mig", *words, stdout=out, stderr=err)
    except SystemExit as stop:
        status = stop.code
    return out.getvalue(), err.getvalue(), status


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["A100-40GB", "3g.20gb", "4g.20gb"], "ok 4g.20gb@0 3g.20gb@4\n"),
        (["A100-40GB", *["2g.10gb"] * 2, "3g.20gb"], "ok 3g.20gb@4 2g.10gb@0 2g.10gb@2\n"),
        (["A100-40GB", "4g.20gb", "--keep", "3g.20gb@4"], "ok 4g.20gb@0 3g.20gb@4\n"),
        (["NVIDIA A30", "4g.24gb"], "ok 4g.24gb@0\n"),
    ],
)
def test_a_possible_set_is_printed_largest_first(words, answer):
    assert mig(*words) == (answer, "", 0)


@pytest.mark.parametrize(
    ("words", "answer", "reason"),
    [
        (["A100-40GB", "4g.20gb", "4g.20gb"], "no 4g.20gb\n", "at most 1 of 4g.20gb, not 2"),
        (["A100-40GB", "3g.20gb", "3g.20gb", "1g.5gb"], "no 1g.5gb\n", "8 memory slices, not 9"),
        (["A100-40GB", "3g.40gb"], "no 3g.40gb\n", "has no profile 3g.40gb"),
        (["A100-40GB", "4g.20gb", "--keep", "3g.20gb@0"], "no 4g.20gb\n", "no free place"),
        (["L40S", "1g.5gb"], "no 1g.5gb\n", "L40S-48GB has no MIG"),
    ],
)
def test_an_impossible_set_names_the_profile_without_a_place(words, answer, reason):
    out, err, status = mig(*words)

    assert (out, status) == (answer, 1)
    assert reason in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["A100", "1g.5gb"], "A100 may be any of A100-40GB, A100-80GB"),
        (["B9000", "1g.5gb"], "there is no GPU model B9000"),
        (["", "1g.5gb"], "there is no GPU model"),
        (["A100-40GB", "half"], "half is no MIG profile: write 3g.20gb"),
        (["A100-40GB", "1g.5gb", "--keep", "3g.20gb"], "3g.20gb is no instance of A100-40GB"),
        (["A100-40GB", "1g.5gb", "--keep", "3g.20gb@3"], "cannot start at 3, only at 0, 4"),
        (
            ["A100-40GB", "1g.5gb", "--keep", "3g.20gb@0", "4g.20gb@0"],
            "--keep: 4g.20gb@0 does not fit",
        ),
    ],
)
def test_unknown_words_are_answered_on_standard_error(words, complaint):
    out, err, status = mig(*words)

    assert (out, status) == ("", 2)
    assert complaint in err


def test_something_to_cut_it_into_is_asked_for():
    with pytest.raises(CommandError, match="profile"):
        mig("A100-40GB")
