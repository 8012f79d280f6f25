"""What the engine decides, as a list of small stories: the names together are the specification."""

from textwrap import dedent

import pytest

from scheduling.engine.scenario import ScenarioError, read_scenario
from scheduling.simulation.run import simulate

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
        (
            "node n1 1xT4 mode=mps:4\nrun r 1xshare:1GiB on 1@n1\nnode n1 mode=mps:2",
            "line 3: GPU n1/0 is in use and cannot be shared otherwise",
        ),
        (
            "node n1 2xA100\nrun r 1x1 on 1@n1 required=room",
            "line 2: unknown level room: write one of node, nvl, rack, block, fabric",
        ),
        (
            "node n1 2xA100\njob x 1x1\nrun r 1x1 on 1@n1 after=x:ok",
            "line 3: unknown word 'after=x:ok'",
        ),
        (
            "node n1 2xA100\njob x 1x1\nrun r 1x1 on 1@n1\njob r after=x:ok",
            "line 4: job 'r' has started and waits for no other",
        ),
        ("job j 1xmig:1g.5gb,0", "line 1: 0 is too few: 1 at least"),
        ("job j 1xshare:1GiB,0", "line 1: 0 is too few: 1 at least"),
        ("job j 1xfrac:0m,1GiB", "line 1: 0 is too few: 1 at least"),
        *(
            (f"job j 1x1 {key}=-5m", "line 1: -5m is negative: a duration is 0s or more")
            for key in ("walltime", "takes", "patience", "stop", "grace", "save")
        ),
        (
            "node n1 1xA100\nrun r 1x1 on 1@n1 limit=-5m",
            "line 2: -5m is negative: a duration is 0s or more",
        ),
        ("tenant T used=-1h", "line 1: -1h is negative: a duration is 0s or more"),
        ("policy max_grace=-10m", "line 1: -10m is negative: a duration is 0s or more"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text, message):
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text)

    assert str(caught.value) == message


TWO_GROUPS = "node n1 4xA100\nrun r a:1x1+b:1x1 on a:1@n1,b:1@n1"
KEPT_FOR_J = "node n1 4xA100\nrun r 1x4 on 1@n1 stop=5m\njob j a:1x2+b:1x2 p5 walltime=10m"
HELD_WHOLE = "node n1 1xA100-40GB\nrun r 1x1 on 1@n1 limit=1h"
CUT = "node n1 1xA100-40GB\ngpu n1/0 mig 3g.20gb@0,1g.5gb@4\nrun r 1xmig:1g.5gb on 1@n1 limit=1h"
WAITING = "node n1 1xA100\njob x 1x1 held\njob y 1x1 after=x:ok\ntenant T\njob z 1x1 held tenant=T"


@pytest.mark.parametrize(
    ("beginning", "line", "message"),
    [
        (TWO_GROUPS, "job r 1x2", "job 'r' has a place and cannot get another shape"),
        (KEPT_FOR_J, "job j 1x2", "job 'j' has a place and cannot get another shape"),
        (
            HELD_WHOLE,
            "gpu n1/0 time_slicing:4",
            "GPU n1/0 is in use and cannot be shared otherwise",
        ),
        (HELD_WHOLE, "node n1 mode=mps:4", "GPU n1/0 is in use and cannot be shared otherwise"),
        (
            CUT,
            "gpu n1/0 mig 3g.20gb@0,3g.20gb@4",
            "GPU n1/0 is in use and cannot be shared otherwise",
        ),
        (WAITING, "job y after=nosuch:ok", "job 'y' cannot wait for it: unknown job nosuch"),
        (WAITING, "job y after=z:ok", "job 'y' cannot wait for it: unknown job z"),
        (WAITING, "job x after=y:any", "job 'x' cannot wait for it: cycle x→y→x"),
        (
            WAITING,
            "job y preferred=room",
            "unknown level room: write one of node, nvl, rack, block, fabric",
        ),
    ],
)
def test_a_later_line_that_cannot_hold_is_named(beginning, line, message):
    number = len(beginning.splitlines()) + 1

    with pytest.raises(ScenarioError) as caught:
        list(simulate(read_scenario(f"{beginning}\n@1m {line}")))

    assert str(caught.value) == f"line {number}: {message}"


def test_what_says_nothing_new_may_be_said_of_what_is_in_use():
    text = f"{CUT}\n@1m gpu n1/0 mig 3g.20gb@0,1g.5gb@4\n@2m job r 1xmig:1g.5gb p5"

    assert list(simulate(read_scenario(text))) == ["+60m end r"]


def test_a_job_that_is_sent_again_and_refused_leaves_the_first_as_it_was():
    text = """
    node n1 1xA100
    job x 1x1 takes=1m
    job y 1x1 held after=x:ok
    @2m job x 1x1 walltime=0s
    @3m job y p5
    """

    lines = list(simulate(read_scenario(dedent(text))))

    assert lines == [
        "+0m start x 1@n1",
        "+0m hold y on_hold",
        "+1m end x",
        "+2m refuse x walltime: 0 is no run time",
    ]


def test_what_was_kept_for_a_job_is_not_kept_for_another_of_its_name():
    text = f"{KEPT_FOR_J}\n@1m cancel j\n@1m job j 1x2 p5 walltime=10m"

    lines = list(simulate(read_scenario(text)))

    assert "+5m start j 1@n1 quality=100" in lines
