"""Explanations and proposals: what would let a waiting job start, and that it is true."""

from textwrap import dedent

import pytest

from scheduling.engine.consolidate import propose_moves
from scheduling.engine.explain import Change, ChangeKind, explain, starts_with
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.survey import take_snapshot

FRAGMENTED = """
node n1 8xA100
node n2 8xA100
run a 1x2 on 1@n1 ckpt=-5m limit=2h
run b 1x6 on 1@n2 ckpt=-5m limit=3h
job J 1x8 walltime=8h
"""
CHANGES = {
    "fewer members": (
        """
        node n1 8xA100
        job J 3x4 required=node
        """,
        [Change(ChangeKind.MEMBERS, 2), Change(ChangeKind.GPUS_PER_MEMBER, 2)],
    ),
    "fewer GPUs in each member": (
        """
        node n1 6xA100
        run a 1x2 on 1@n1
        job J 1x6
        """,
        [Change(ChangeKind.GPUS_PER_MEMBER, 4)],
    ),
    "another kind of GPU": (
        """
        node n1 1xA100
        node n2 1xT4
        run a 1x1 on 1@n1
        job J 1x1 model=A100
        """,
        [Change(ChangeKind.FLAVOR, 1)],
    ),
    "a wider domain": (
        """
        node n1 8xA100 rack=r1
        node n2 8xA100 rack=r2
        run a 1x4 on 1@n1
        job J 2x4 required=rack
        job K 1x4
        policy order=fifo
        """,
        [],
    ),
    "a walltime that ends before somebody's turn": (
        """
        node n1 8xA100
        node n2 8xA100
        run a 1x8 on 1@n1 limit=60m fixed
        job H 2x8 walltime=1h p9
        job J 1x8
        """,
        [Change(ChangeKind.WALLTIME, 3600)],
    ),
    "to let itself be stopped": (
        """
        node n1 8xA100
        cohort lab
        tenant A cohort=lab quota=A100:2
        tenant B cohort=lab quota=A100:4
        job J 1x3 tenant=A fixed
        """,
        [Change(ChangeKind.GPUS_PER_MEMBER, 2), Change(ChangeKind.PREEMPTIBLE, 1)],
    ),
}


def snapshot_of(text):
    world = read_scenario(dedent(text)).world
    return take_snapshot(world, 0), world


@pytest.mark.parametrize(("text", "want"), CHANGES.values(), ids=CHANGES)
def test_the_smallest_changes_that_help_are_named_and_true(text, want):
    snapshot, world = snapshot_of(text)
    job = world.jobs["J"].id

    found = explain(snapshot, world.policy, job).changes

    assert list(found) == want
    assert all(starts_with(snapshot, world.policy, job, change) for change in found)


def test_the_ladder_ends_at_the_reason():
    snapshot, world = snapshot_of(FRAGMENTED)

    told = explain(snapshot, world.policy, world.jobs["J"].id)

    passed = [check.reason.value for check in told.ladder if check.passed]
    failed = [check.reason.value for check in told.ladder if check.passed is False]
    assert (len(passed), failed) == (18, ["fragmented"])


def test_the_estimated_start_is_a_range_from_progress_to_limit():
    snapshot, world = snapshot_of(
        """
        node n1 8xA100
        run a 1x8 on 1@n1 limit=2h expected=+30m
        job J 1x8 walltime=1h
        """
    )

    told = explain(snapshot, world.policy, world.jobs["J"].id)

    assert (told.earliest, told.latest) == (1800, 7200)


def test_moves_are_proposed_that_make_a_node_free():
    snapshot, world = snapshot_of(FRAGMENTED)

    (proposal,) = propose_moves(snapshot, Policy())

    assert [world.names()[move.job] for move in proposal.moves] == ["a"]
    assert {member.node for move in proposal.moves for member in move.members} == {1}
    assert (proposal.gained, proposal.lost) == (8 * 8 * 3600, 2 * (300 + 300))


def test_no_moves_are_proposed_that_lose_more_than_they_gain():
    snapshot, _ = snapshot_of(FRAGMENTED.replace("walltime=8h", "walltime=1m"))

    assert propose_moves(snapshot, Policy()) == ()
