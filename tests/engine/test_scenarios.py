"""What the engine decides, as a list of small stories: the names together are the specification."""

from textwrap import dedent

import pytest

from scheduling.engine.scenario import ScenarioError, read_scenario

SCENARIOS = {
    "the more urgent job goes first, then the older one": (
        """
        node n1 2xA100
        job late 1x1
        job early 1x1 submitted=-5m
        job urgent 1x1 p9
        """,
        ["start urgent 1@n1", "start early 1@n1", "hold late no_room missing=1 waits_for=urgent"],
    ),
    "a gang starts whole": (
        """
        node n1 8xA100
        node n2 8xA100
        job A 2x8
        job B 2x8
        """,
        ["start A 1@n1 1@n2 quality=47", "hold B no_room missing=2 waits_for=A"],
    ),
    "the fullest node that fits is used, so that empty ones stay whole": (
        """
        node n1 8xA100
        node n2 8xA100
        run R 1x6 on 1@n2
        job J 1x2
        """,
        ["start J 1@n2 quality=100"],
    ),
    "a gang takes as few nodes as possible": (
        """
        node n1 2xA100
        node n2 2xA100
        node n3 4xA100
        job J 4x1
        """,
        ["start J 4@n3 quality=100"],
    ),
    "members that ask for no GPU go where there is CPU": (
        """
        node n1 0xcpu cpu=8
        job J 2x0 cpu=4
        job K 1x0 cpu=1
        """,
        ["start J 2@n1", "hold K no_room missing=1 waits_for=J"],
    ),
    "a job that no node could ever hold says what the largest could": (
        """
        node n1 4xA100
        node n2 4xA100 closed
        job A 1x6
        """,
        ["hold A never_fits largest=4 now=4 level=node"],
    ),
    "nothing starts on a closed node": (
        """
        node n1 8xA100 closed
        job J 1x8
        """,
        ["hold J no_room missing=1"],
    ),
    "a job that would fit on repaired GPUs says so": (
        """
        node n1 4xA100
        gpu n1/2 faulty
        job J 1x4
        """,
        ["hold J unhealthy missing=1"],
    ),
    "enough free, but not on one node": (
        """
        node n1 4xA100
        node n2 4xA100
        run R 1x2 on 1@n1
        run S 1x2 on 1@n2
        job J 1x4
        """,
        ["hold J fragmented free=1 largest=0 level=node waits_for=R"],
    ),
    "quota is the most that a tenant's jobs may use together": (
        """
        node n1 8xA100
        tenant T quota=A100:4
        run R 1x3 on 1@n1 tenant=T
        job J 1x2 tenant=T
        job K 1x1 tenant=T
        policy order=fifo
        """,
        ["hold J quota_exhausted at=T free=1 asked=2", "start K 1@n1"],
    ),
    "more than a tenant may ever use": (
        """
        node n1 8xA100
        tenant T quota=A100:4
        job J 1x5 tenant=T
        """,
        ["hold J over_ceiling limit=4 asked=5"],
    ),
    "a job on hold waits whatever room there is": (
        """
        node n1 8xA100
        job J 1x1 held
        """,
        ["hold J on_hold"],
    ),
    "a job that asks for a kind of GPU that nobody has": (
        """
        node n1 8xA100
        job J 1x1 model=H100
        """,
        ["hold J no_flavor"],
    ),
    "the preferred kind of GPU first, the other if there is no room": (
        """
        node n1 2xA100
        node n2 8xH100
        job J 1x2 model=H100|A100
        job K 1x8 model=A100|H100
        job L 1x2 model=H100|A100
        """,
        [
            "start J 1@n2 quality=100",
            "hold K fragmented free=1 largest=0 level=node waits_for=J",
            "start L 1@n2 quality=100",
        ],
    ),
    "one rack holds a gang that requires it": (
        """
        node n1 8xA100 rack=r1
        node n2 8xA100 rack=r2
        node n3 8xA100 rack=r2
        job J 2x8 required=rack
        """,
        ["start J 1@n2 1@n3 quality=47"],
    ),
    "groups with minima of their own": (
        """
        node n1 4xA100
        node n2 1xA100
        job rl actor:3x1+learner:2x1
        """,
        ["start rl actor:3@n1 learner:1@n1 learner:1@n2 quality=60"],
    ),
    "what is kept for a job does not count against the quota that it is kept for": (
        """
        node n1 8xA100
        cohort c
        tenant lender cohort=c quota=A100:8
        tenant borrower cohort=c quota=A100:0
        run R 1x8 on 1@n1 tenant=borrower stopping
        job J 1x8 tenant=lender
        keep J on 1@n1 gpus=n1/0-7 until=+5m
        """,
        ["hold J making_room until=+5m victims=R"],
    ),
    "a budget counts a fraction as one device": (
        """
        node a 2xA100-40GB mode=hami gpumem=40GiB
        tenant A budget=4h
        job thirds 3xfrac:300m,8GiB tenant=A walltime=90m
        """,
        ["hold thirds budget_exhausted left=4h asked=4.5h"],
    ),
    "a job without GPUs needs no quota, even if its tenant is over it": (
        """
        node a 2xA100
        cohort lab
        tenant A cohort=lab quota=A100:0+0
        tenant B
        run over 1x1 on 1@a tenant=A limit=2h
        job wide 1x2 tenant=B walltime=1h
        job poor 1x0 tenant=A walltime=3h
        job rich 1x0 tenant=B walltime=3h
        policy order=fifo
        """,
        [
            "reserve wide +120m 2@a",
            "hold wide no_room missing=1",
            "start poor 1@a backfill",
            "start rich 1@a backfill",
        ],
    ),
}


@pytest.mark.parametrize(("text", "want"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario(text, want):
    assert read_scenario(dedent(text)).plan_lines() == want


def test_devices_are_named_on_request():
    text = """
    node n1 8xA100 islands=0+2,1+3,4-5,6-7 numa=0-3,4-7
    gpu n1/5 faulty
    job j 2x2
    """

    lines = read_scenario(dedent(text)).plan_lines(with_devices=True)

    assert lines == ["start j 2@n1 gpus=n1/0-3 quality=44"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# a comment\nnode n1 8xA100\nnod n2 8xA100", "line 3: unknown word 'nod'"),
        ("node n1 8xA100 colour=red", "line 1: unknown word 'colour=red'"),
        (
            "node n1 8xA100\njob j 4y8",
            "line 2: '4y8' is no shape: write 4x8, 2..4x1 or actor:3x1+learner:2x1",
        ),
        ("node n1 2xA100\nrun r 1x4 on 1@n1", "line 2: 'r' does not fit on n1"),
        ("node n1 2xA100 cpu=many", "line 1: 'many' is no number"),
        ("job j 1x1 tenant=T", "line 1: there is no tenant 'T'"),
        ("node n1 1025xA100", "line 1: 1025 is too many: 1024 at most"),
        (
            "node n1 8xA100\njob j 1x99999999999999999999",
            "line 2: 99999999999999999999 is too large: a number has 9 digits at most",
        ),
        (
            "node n1 8xA100\nrun r 1x1 on 1@n1 gpus=n1/0-1024",
            "line 2: '0-1024' is beyond the 1024 GPUs that a node may have",
        ),
        (
            "node n1 8xA100\nrun r 1x8 on 1@n1\nnode n1 4xA100",
            "line 3: node 'n1' is in use and cannot get other GPUs",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text, message):
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text)

    assert str(caught.value) == message
