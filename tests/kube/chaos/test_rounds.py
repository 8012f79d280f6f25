"""Gangs on a real control plane, while workers, watchers and the line to it die again and again."""

import pytest

pytestmark = [pytest.mark.kube, pytest.mark.django_db(transaction=True)]

ROUNDS, MANY_ROUNDS = 20, 1000
SEEDS = [
    pytest.param(seed, marks=() if seed < ROUNDS else pytest.mark.long)
    for seed in range(MANY_ROUNDS)
]


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_dies_no_promise_is_broken(board, sent, seed):
    board.play(seed, sent)
