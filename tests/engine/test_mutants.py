"""Whether the tests of the engine find mistakes in it: tried with a sample of small ones."""

import os
import sys

import pytest

from tests.engine.mutants import ENGINE, mutant_at, sample, sites_in, survivors

SAMPLE = int(os.environ.get("MUSTER_MUTANTS", "100"))
MOST_LEFT = 0.25  # of them; about half of those that nothing finds change nothing that shows


def test_a_mutant_is_the_module_with_one_thing_changed():
    made = [mutant_at(*site) for site in sites_in(ENGINE / "arrays.py")]

    assert len({mutant.source for mutant in made}) == len(made) > 10
    assert all(mutant.was != mutant.now for mutant in made)
    assert all(mutant.now in mutant.source for mutant in made)


@pytest.mark.long
def test_most_small_mistakes_are_found(capsys):
    chosen = sample(SAMPLE, seed=1)

    def told(mutant, found):
        with capsys.disabled():
            sys.stdout.write("." if found else f"\nnot found: {mutant}\n")
            sys.stdout.flush()

    left = survivors(chosen, os.cpu_count() or 1, told)

    assert len(left) <= MOST_LEFT * len(chosen)
