"""What would help a waiting job: every suggestion is true, and the smallest of its kind."""

from textwrap import dedent

import pytest
from hypothesis import given, settings

from scheduling.engine.advice import Aid, Effect, Suggestion, largest, suggestions
from scheduling.engine.cycle import plan_cycle, verdict_on
from scheduling.engine.explain import Change, ChangeKind, with_change
from scheduling.engine.plan import Hold, Start
from scheduling.engine.policy import Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.scenario.survey import take_snapshot
from tests.engine.strategies import snapshots

NOW, LATER = Effect.STARTS_NOW, Effect.MAY_START
HELP = {
    "fewer of either": (
        """
        node n1 8xA100
        run a 1x4 on 1@n1 limit=1h fixed
        job J 2x4
        """,
        [
            Suggestion(ChangeKind.MEMBERS, 1, NOW),
            Suggestion(ChangeKind.GPUS_PER_MEMBER, 2, NOW),
            Suggestion(Aid.END, "a", NOW),
        ],
    ),
    "a gang that no empty cluster could hold": (
        """
        node n1 8xA100
        run a 1x8 on 1@n1 limit=1h fixed
        job J 3x8
        """,
        [
            Suggestion(ChangeKind.MEMBERS, 1, LATER),
            Suggestion(ChangeKind.GPUS_PER_MEMBER, 2, LATER),
        ],
    ),
    "quota, and room is there": (
        """
        node n1 8xA100
        tenant A quota=A100:4
        run a 1x3 on 1@n1 tenant=A fixed
        job J 1x3 tenant=A
        """,
        [
            Suggestion(Aid.QUOTA, 2, NOW, 0),
            Suggestion(ChangeKind.GPUS_PER_MEMBER, 1, NOW),
            Suggestion(Aid.END, "a", NOW),
        ],
    ),
    "quota, and then room is short": (
        """
        node n1 8xA100
        tenant A quota=A100:2
        tenant B quota=A100:8
        run a 1x7 on 1@n1 tenant=B fixed
        job J 1x3 tenant=A
        """,
        [
            Suggestion(Aid.QUOTA, 1, LATER, 0),
            Suggestion(ChangeKind.GPUS_PER_MEMBER, 2, LATER),
            Suggestion(ChangeKind.GPUS_PER_MEMBER, 1, NOW),
        ],
    ),
    "another kind of GPU": (
        """
        node n1 1xA100
        node n2 1xT4
        run a 1x1 on 1@n1 limit=1h fixed
        job J 1x1 model=A100
        """,
        [Suggestion(ChangeKind.FLAVOR, 1, NOW), Suggestion(Aid.END, "a", NOW)],
    ),
    "a shorter walltime": (
        """
        node n1 8xA100
        node n2 8xA100
        run a 1x8 on 1@n1 limit=60m fixed
        job H 2x8 walltime=1h p9
        job J 1x8
        """,
        [Suggestion(ChangeKind.WALLTIME, 3600, NOW)],
    ),
    "nothing where it is somebody's word that is missing": (
        """
        node n1 8xA100
        run a 1x4 on 1@n1 fixed
        job J 2x4 held
        """,
        [],
    ),
    "nothing for one that starts": ("node n1 8xA100\njob J 2x4", []),
}


@pytest.mark.parametrize(("text", "want"), HELP.values(), ids=HELP)
def test_what_helps(text, want):
    world = read_scenario(dedent(text)).world

    found = list(suggestions(take_snapshot(world, 0), world.policy, world.jobs["J"].id))

    names = world.names()
    named = [
        Suggestion(own.kind, names[own.value], own.effect) if own.kind == Aid.END else own
        for own in found
    ]
    assert named == want


@pytest.mark.parametrize("limit", range(6))
def test_the_largest_number_that_works_is_found(limit):
    tried = []

    def works(number):
        tried.append(number)
        return number <= limit

    assert largest(5, works) == limit
    assert len(tried) <= 4


@settings(deadline=None, max_examples=60)
@given(snapshots())
def test_one_verdict_alone_is_the_one_of_the_plan(snapshot):
    policy = Policy()
    plan = plan_cycle(snapshot, policy)

    for verdict in plan.of(Hold):
        assert verdict_on(snapshot, policy, verdict.job) == verdict
    for start in plan.of(Start):
        assert isinstance(verdict_on(snapshot, policy, start.job), Start)


@settings(deadline=None, max_examples=40)
@given(snapshots())
def test_each_change_that_is_said_to_start_a_job_starts_it_in_the_whole_plan(snapshot):
    policy = Policy()
    for hold in plan_cycle(snapshot, policy).of(Hold):
        for told in suggestions(snapshot, policy, hold.job):
            if told.kind in set(Aid) or told.effect != NOW:
                continue
            changed = with_change(snapshot, hold.job, Change(told.kind, told.value))
            assert hold.job in {start.job for start in plan_cycle(changed, policy).starts}
