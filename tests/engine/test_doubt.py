"""Wrong plans, each with one thing in it that no cycle may decide, and what is said of them.

Each case is a scenario and decisions made by hand in place of the planner's.
"""

import re
from inspect import signature

import pytest

from scheduling.engine.invariants import violations
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import (
    Grow,
    Hold,
    Plan,
    Preempt,
    Reason,
    Repartition,
    Reserve,
    Shrink,
    Start,
)
from scheduling.engine.scenario import read_scenario


def on_gpus(*gpus, rank=0, node=0):
    return PlacedMember(0, rank, node, gpus)


def on_slots(*slots, rank=0):
    return PlacedMember(0, rank, 0, (), (), slots)


def making_room(job, *keeps):
    return Hold(job, Reason.MAKING_ROOM, (), keeps, 1800)


def waits(job):
    return Hold(job, Reason.NO_ROOM)


def doubts(text, make):
    """What is said of the decisions that `make` gives for a scenario, told the ids of its jobs."""
    scenario = read_scenario(text)
    snapshot = scenario.snapshot()
    ids = {job.name: job.id for job in (*snapshot.pending, *snapshot.running)}
    names = {str(job_id): name for name, job_id in ids.items()}
    decisions = make(*(ids[name] for name in signature(make).parameters))
    said = violations(snapshot, Plan(snapshot.taken_at, tuple(decisions)), scenario.world.policy)
    return [
        re.sub(r"(?<=job )\d+", lambda own: names.get(own[0], own[0]), sentence)
        for sentence in said
    ]


WRONG = {
    "a start on a node and a GPU that do not exist": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [Start(j, (on_gpus(9, node=5),))],
        ["job j gets what does not exist"],
    ),
    "a start of a group that the job does not have": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [Start(j, (PlacedMember(1, 0, 0, (0,)),))],
        ["job j gets what does not exist"],
    ),
    "a place kept on a GPU that does not exist": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [making_room(j, on_gpus(1))],
        ["job j keeps what does not exist"],
    ),
    "a reservation for nobody": (
        """
        node a 1xA100-40GB
        """,
        lambda: [Reserve(77, 60, ((0, 1, 1),))],
        ["job 77 has a reservation and is not waiting"],
    ),
    "a reservation on a node that does not exist": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [Reserve(j, 60, ((3, 1, 1),)), waits(j)],
        ["the reservation of job j is on a node that does not exist"],
    ),
    "a reservation in the past": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [Reserve(j, -60, ((0, 1, 1),)), waits(j)],
        ["the reservation of job j is in the past"],
    ),
    "an instance of another profile": (
        """
        node a 1xA100-40GB
        gpu  a/0 mig 3g.20gb@0,1g.5gb@4
        job  j 1xmig:3g.20gb
        """,
        lambda j: [Start(j, (PlacedMember(0, 0, 0, (), (1,)),))],
        ["job j got an instance of another profile"],
    ),
    "shares with more memory than their board has": (
        """
        node a 1xA100-40GB gpumem=40GiB mode=time_slicing:2
        job  j 2xshare:30GiB
        """,
        lambda j: [Start(j, (on_slots(0), on_slots(1, rank=1)))],
        ["job j got more memory of GPU 0 than is free"],
    ),
    "fractions with more memory than their board has": (
        """
        node a 1xA100-40GB gpumem=40GiB mode=hami
        job  j 2xfrac:300m,30GiB
        """,
        lambda j: [Start(j, (on_gpus(0), on_gpus(0, rank=1)))],
        ["job j got more memory of GPU 0 than is free"],
    ),
    "two replicas where each may have one": (
        """
        node a 1xA100-40GB gpumem=40GiB mode=time_slicing:2
        job  j 1xshare:1GiB,2
        """,
        lambda j: [Start(j, (on_slots(0, 1),))],
        ["a member of job j got replicas where each may have one"],
    ),
    "a start on a GPU that is being cut anew": (
        """
        node a 1xA100-40GB layouts=auto
        job  j 1x1
        job  k 1xmig:3g.20gb
        """,
        lambda j, k: [
            Repartition(0, (("3g.20gb", 0),), k),
            Start(j, (on_gpus(0),)),
            Hold(k, Reason.MAKING_ROOM),
        ],
        ["job j is given what is not free"],
    ),
    "a layout that no board can have": (
        """
        node a 1xA100-40GB layouts=auto
        job  k 1xmig:3g.20gb
        """,
        lambda k: [Repartition(0, (("3g.20gb", 1),), k), Hold(k, Reason.MAKING_ROOM)],
        ["GPU 0 is cut anew into a layout that it cannot have"],
    ),
    "a layout where an operator decides on them": (
        """
        node a 1xA100-40GB
        job  k 1xmig:3g.20gb
        """,
        lambda k: [Repartition(0, (("3g.20gb", 0),), k), Hold(k, Reason.MAKING_ROOM)],
        ["GPU 0 is cut anew where layouts are not automatic"],
    ),
    "a start over a block that begins before it ends": (
        """
        node  a 2xA100-40GB
        block b 2@a from=+10m to=+60m
        job   j 1x2 walltime=60m
        """,
        lambda j: [Start(j, (on_gpus(0, 1),))],
        ["block b lacks GPUs of node 0 that are given away"],
    ),
    "a start inside a block of others": (
        """
        node   a 2xA100-40GB
        tenant A
        tenant B
        block  b 2@a from=-10m to=+60m tenant=B
        job    j 1x2 walltime=60m tenant=A
        """,
        lambda j: [Start(j, (on_gpus(0, 1),))],
        ["block b lacks GPUs of node 0 that are given away"],
    ),
    "a start before the end of a job that it waits for": (
        """
        node a 2xA100-40GB
        run  x 1x1 on 1@a
        job  j 1x1 after=x:any
        """,
        lambda j: [Start(j, (on_gpus(1),))],
        ["job j starts before job x has ended"],
    ),
    "a start of what another job waits on": (
        """
        node a 1xA100-40GB
        job  h 1x1
        job  j 1x1
        keep h on 1@a
        """,
        lambda h, j: [Start(j, (on_gpus(0),)), waits(h)],
        ["job j is given what is kept for job h"],
    ),
    "a start ahead of whom the order is strict for": (
        """
        node   a 1xA100-40GB
        job    h 1x1
        job    j 1x1
        policy strict=on order=fifo
        """,
        lambda h, j: [Start(j, (on_gpus(0),)), waits(h)],
        ["job j overtakes job h, which waits in a strict order"],
    ),
    "growth past a maintenance window": (
        """
        node a 2xA100-40GB window=+10m
        run  x 1..2x1 on 1@a limit=1h
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=1),))],
        ["job x would not end before node 0 closes"],
    ),
    "growth by a rank that there is": (
        """
        node a 2xA100-40GB
        run  x 1..2x1 on 1@a limit=1h
        """,
        lambda x: [Grow(x, (on_gpus(1),))],
        ["job x grows by ranks other than the next"],
    ),
    "growth by a rank too high": (
        """
        node a 2xA100-40GB
        run  x 1..2x1 on 1@a limit=1h
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=2),))],
        ["job x grows by ranks other than the next"],
    ),
    "growth beyond the budget": (
        """
        node   a 2xA100-40GB
        tenant T budget=1h
        run    x 1..2x1 on 1@a limit=61m tenant=T
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=1),))],
        ["job x exceeds the budget of its tenant"],
    ),
    "growth out of the required domain": (
        """
        node a 1xA100-40GB
        node b 1xA100-40GB
        run  x 1..2x1 on 1@a limit=1h required=node
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=1, node=1),))],
        ["job x is in more than one node"],
    ),
    "growth into another island of a node": (
        """
        node a 2xA100-40GB islands=0,1
        run  x 1..2x1 on 1@a limit=1h island
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=1),))],
        ["job x is in more than one island of node 0"],
    ),
    "growth of a job that is stopping": (
        """
        node a 2xA100-40GB
        run  x 1..2x1 on 1@a limit=1h stopping stop=5m
        """,
        lambda x: [Grow(x, (on_gpus(1, rank=1),))],
        ["job x is stopping already"],
    ),
    "a stop of a job of equal priority": (
        """
        node a 1xA100-40GB
        run  x 1x1 on 1@a p3
        job  j 1x1 p3
        """,
        lambda x, j: [Preempt(x, j), making_room(j, on_gpus(0))],
        ["job x is stopped for job j, which has no right to that"],
    ),
    "a stop of another tenant's job for its priority": (
        """
        node   a 1xA100-40GB
        tenant A
        tenant B
        run    x 1x1 on 1@a tenant=A
        job    j 1x1 tenant=B p6
        policy across=7
        """,
        lambda x, j: [Preempt(x, j), making_room(j, on_gpus(0))],
        ["job x is stopped for job j, which has no right to that"],
    ),
    "a stop of a job on quota that its tenant owns": (
        """
        node   a 2xA100-40GB
        cohort c
        tenant A cohort=c quota=A100-40GB:1
        tenant B cohort=c quota=A100-40GB:1
        run    x 1x1 on 1@a tenant=A
        job    j 1x1 tenant=B
        """,
        lambda x, j: [Preempt(x, j), making_room(j, on_gpus(0))],
        ["job x is stopped for job j, which has no right to that"],
    ),
    "a stop for a job that must borrow itself": (
        """
        node   a 3xA100-40GB
        cohort c quota=A100-40GB:1
        tenant A cohort=c quota=A100-40GB:1
        tenant B cohort=c quota=A100-40GB:1
        run    x 1x2 on 1@a tenant=A
        run    y 1x1 on 1@a tenant=B
        job    j 1x1 tenant=B
        """,
        lambda x, j: [Preempt(x, j), making_room(j, on_gpus(0))],
        ["job x is stopped for job j, which has no right to that"],
    ),
    "a stop that is not needed": (
        """
        node a 2xA100-40GB
        run  x 1x1 on 1@a
        job  j 1x1 p3
        """,
        lambda x, j: [Preempt(x, j), making_room(j, on_gpus(1))],
        ["job x is stopped for job j, which does not need that"],
    ),
    "a stop for a job that keeps nothing": (
        """
        node a 1xA100-40GB
        run  x 1x1 on 1@a
        job  j 1x1 p3
        """,
        lambda x, j: [Preempt(x, j), waits(j)],
        ["job x is stopped for job j, which keeps nothing"],
    ),
    "a gang that loses members of others": (
        """
        node a 4xA100-40GB
        run  x 1..2x1 on 2@a
        job  j 1x2 p3
        """,
        lambda x, j: [Shrink(x, (on_gpus(3, rank=1),), j), making_room(j, on_gpus(2, 3))],
        ["job x is to lose members that it does not have"],
    ),
    "a gang that loses its lowest rank": (
        """
        node a 3xA100-40GB
        run  x 1..2x1 on 2@a
        job  j 1x2 p3
        """,
        lambda x, j: [Shrink(x, (on_gpus(0),), j), making_room(j, on_gpus(0, 2))],
        ["job x does not lose its highest ranks"],
    ),
    "a gang that loses members for nobody": (
        """
        node a 2xA100-40GB
        run  x 1..2x1 on 2@a
        """,
        lambda x: [Shrink(x, (on_gpus(1, rank=1),), 999)],
        ["job x is stopped for nobody"],
    ),
    "a place kept on a closed node": (
        """
        node a 1xA100-40GB closed
        job  j 1x1
        """,
        lambda j: [making_room(j, on_gpus(0))],
        ["job j is on node 0, which is not open to it"],
    ),
    "a place kept over a quota": (
        """
        node   a 1xA100-40GB
        tenant A quota=A100-40GB:0
        job    j 1x1 tenant=A
        """,
        lambda j: [making_room(j, on_gpus(0))],
        ["job j exceeds the quota of its tenant with what it keeps"],
    ),
    "a place kept for no reason": (
        """
        node a 1xA100-40GB
        job  j 1x1
        """,
        lambda j: [Hold(j, Reason.NO_ROOM, (), (on_gpus(0),), 1800)],
        ["job j keeps what was not kept for it"],
    ),
}


@pytest.mark.parametrize(("text", "make", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_plan_is_caught(text, make, said):
    assert doubts(text, make) == said


@pytest.mark.parametrize("access", ["1x1", "1xmig:3g.20gb"])
def test_what_a_stopping_job_holds_comes_back_once(access):
    scenario = f"""
        node a 3xA100-40GB
        gpu  a/0 mig 3g.20gb@0
        run  x {access} on 1@a limit=1h stopping stop=5m
        job  j 1x2
        """

    said = doubts(scenario, lambda j: [Reserve(j, 4 * 3600, ((0, 1, 2),)), waits(j)])

    assert said == []
