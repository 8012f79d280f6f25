"""Snapshots, policies and plans as JSON: what is read back, and what is refused."""

import json

import pytest

from scheduling.engine.codec import UnreadableError, decode, encode
from scheduling.engine.jobs import PlacedMember
from scheduling.engine.plan import Hold, Plan, Reason, Repartition, Reserve, Shrink
from scheduling.engine.policy import Order, Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.snapshot import Snapshot

EVERYTHING = """
node n1 4xA100-40GB rack=r1 cpu=8 islands=0+1,2+3 numa=0-1,2-3 window=+2h
node n2 2xT4 mode=time_slicing:4 gpumem=16GiB
gpu n1/0 mig 3g.20gb@0,3g.20gb@4
cohort lab
tenant A cohort=lab quota=T4:1+1-1 used=3h budget=9h
run r 1x1 on 1@n1 tenant=A limit=30m
job j a:1x1+b:1..2x0 tenant=A after=r:any p3
job s 2xshare:2GiB
keep j on a:1@n1,b:1@n1
block course 1@n1 from=+1h to=+2h tenant=A
"""


def test_a_snapshot_comes_back_as_it_was():
    text = encode(read_scenario(EVERYTHING).snapshot())

    assert encode(decode(text, Snapshot)) == text


def test_a_policy_comes_back_as_it_was():
    policy = Policy(order=Order.EXPANSION, default_walltime=90, across=None)

    assert decode(encode(policy), Policy) == policy


def test_every_kind_of_decision_comes_back_as_it_was():
    member = PlacedMember(0, 1, 2, gpus=(3,), instances=(), slots=(4,))
    plan = Plan(
        7,
        (
            Shrink(1, (member,), on_behalf_of=2),
            Repartition(3, (("1g.5gb", 0),), on_behalf_of=2),
            Reserve(2, 60, ((0, 1, 8),)),
            Hold(2, Reason.MAKING_ROOM, (("until", 9), ("victims", (1, 3))), (member,), 9),
            Hold(4, Reason.QUOTA_EXHAUSTED, (("at", "lab"), ("free", 0))),
        ),
    )

    assert decode(encode(plan), Plan) == plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "plan"}, "not a snapshot"),
        ({"version": 99}, "version 99 of snapshot; this release reads 1"),
        ({"value": {}}, "this snapshot is damaged: 'tenant_ids'"),
    ],
)
def test_what_is_no_snapshot_of_ours_is_refused(change, message):
    document = json.loads(encode(read_scenario(EVERYTHING).snapshot())) | change

    with pytest.raises(UnreadableError) as caught:
        decode(json.dumps(document), Snapshot)

    assert str(caught.value) == message


def test_what_is_no_json_is_refused():
    with pytest.raises(UnreadableError, match="not JSON"):
        decode("node n1 8xA100", Snapshot)
