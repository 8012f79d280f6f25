"""Snapshots, policies and plans as JSON: what is read back, and what is refused."""

import json
import re

import pytest

from scheduling.engine.codec import UnreadableError, decode, encode
from scheduling.engine.jobs import Access, PlacedMember
from scheduling.engine.plan import Hold, Plan, Reason, Repartition, Reserve, Shrink
from scheduling.engine.policy import Order, Policy
from scheduling.engine.scenario import read_scenario
from scheduling.engine.snapshot import Quotas, Snapshot

DECISIONS = "start, grow, shrink, preempt, repartition, reserve, hold"
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
        ({"version": True}, "version True of snapshot; this release reads 1"),
        ({"value": {}}, "this snapshot is damaged: taken_at is missing"),
        ({"value": []}, "this snapshot is damaged: must be an object, not a list"),
    ],
)
def test_what_is_no_snapshot_of_ours_is_refused(change, message):
    document = json.loads(encode(read_scenario(EVERYTHING).snapshot())) | change

    with pytest.raises(UnreadableError) as caught:
        decode(json.dumps(document), Snapshot)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text", ["node n1 8xA100", "[" * 100_000, b"\xff\xfe{", "9" * 5000], ids=lambda text: text[:9]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(UnreadableError, match="not JSON"):
        decode(text, Snapshot)


@pytest.mark.parametrize(
    ("place", "found", "message"),
    [
        ("taken_at", 10**30, f"taken_at must be from {-(2**62)} to {2**62}"),
        ("tenant_ids", None, "tenant_ids must be a list, not null"),
        ("flavors.0", 7, "flavors[0] must be a text, not 7"),
        ("pending.0.walltime_seconds", "1h", '… must be a whole number or null, not "1h"'),
        ("pending.0.walltime_seconds", -60, "… must be 0 or more, not -60"),
        ("pending.0.priority", 1.5, "… must be a whole number, not 1.5"),
        ("pending.0.priority", True, "… must be a whole number, not true"),
        ("pending.0.held", 1, "… must be true or false, not 1"),
        ("pending.0.required", [], "… must be a whole number or null, not a list"),
        ("pending.0.required", 5, "… must be one of 0, 1, 2, 3, 4, not 5"),
        ("pending.0.tenant", 9, "… must be an index below 2, not 9"),
        ("pending.0.flavors", [-1], "… must be an index below 2, not -1"),
        ("pending.0.id", 1, "… must be of one job alone, not 1 again"),
        ("pending.0.groups", [], "… must be one at least"),
        ("pending.0.groups.1.min_member", 3, "… must be from 1 to max_member"),
        ("pending.0.groups.0.request.kind", "all", '… must be one of %s, not "all"'),
        ("pending.0.groups.0.request.count", 0, "… must be 1 or more of kind whole"),
        ("pending.0.groups.0.request.extras", [["nics", -1]], "… must be 0 or more"),
        ("pending.0.groups.0.request.extras", [["nics"]], "…[0] must have 2 items, not 1"),
        ("running.0.members.0.group", 1, "… must be an index below 1, not 1"),
        ("running.0.members.0.node", 2, "… must be an index below 2, not 2"),
        ("running.0.members.0.gpus", [6], "… must be an index below 6, not 6"),
        ("running.0.members.0.instances", [2], "… must be an index below 2, not 2"),
        ("running.0.members.0.slots", [8], "… must be an index below 8, not 8"),
        ("holds.0.members.0.group", 2, "… must be an index below 2, not 2"),
        ("blocks.0.amounts", [[2, 1]], "… must be an index below 2, not 2"),
        ("blocks.0.tenant", 2, "… must be an index below 2, not 2"),
        ("gpu_node.5", 9, "gpu_node must be from 0 to 1"),
        ("gpu_node.5", "n2", "gpu_node must hold nothing but whole numbers of 64 bits"),
        ("gpu_open.0", 3, "gpu_open must hold nothing but true or false"),
        ("free.0", [1], "free must be a list, or lists of equal length"),
        ("capacity.0.0", -(2**63), f"capacity must hold numbers from {-(2**62)} to {2**62}"),
        ("gpu_mode.0", 5, "gpu_mode must be from 0 to 4"),
        ("node_flavor.0", 2, "node_flavor must be from 0 to 1"),
        ("node_dedicated.0", 4, "node_dedicated must be from -1 to 3"),
        ("gpu_model.0", 2, "gpu_model must be from -1 to 1"),
        ("mig_gpu.0", -1, "mig_gpu must be from 0 to 5"),
        ("mig_profile.0", 1, "mig_profile must be from 0 to 0"),
        ("slot_gpu.0", 6, "slot_gpu must be from 0 to 5"),
        ("slot_instance.0", 2, "slot_instance must be from -1 to 1"),
        ("node_domain.2.0", 2, "node_domain must be indexes into domain_names"),
        ("node_domain.2.0", -1, "node_domain must be indexes into domain_names"),
        (
            "domain_names",
            [],
            "domain_names and domain_oversub_milli must be equally long by level",
        ),
        ("tenant_names", ["A"], "every tenant needs a name"),
        ("quotas.parent.2", 2, "quotas.parent must not lead round in a cycle"),
        ("quotas.parent.0", 1, "quotas.parent must be the row of a cohort, from 2 to 2, or -1"),
        ("quotas.parent.0", 3, "quotas.parent must be the row of a cohort, from 2 to 2, or -1"),
    ],
)
def test_a_part_that_its_field_cannot_take_is_named(place, found, message):
    document = json.loads(encode(read_scenario(EVERYTHING).snapshot()))
    *way, last = (int(step) if step.isdecimal() else step for step in place.split("."))
    inner = document["value"]
    for step in way:
        inner = inner[step]
    inner[last] = found

    with pytest.raises(UnreadableError) as caught:
        decode(json.dumps(document), Snapshot)

    name = re.sub(r"\.(\d+)", r"[\1]", place)
    want = message.replace("…", name).replace("%s", ", ".join(Access))
    assert str(caught.value) == f"this snapshot is damaged: {want}"


def test_a_cycle_of_cohorts_is_refused_however_long():
    cohorts = 1000
    quotas = Quotas.of(
        tenants=0, flavors=1, cohorts=cohorts, parent=[*range(1, cohorts), cohorts // 2]
    )

    with pytest.raises(ValueError, match=r"quotas\.parent must not lead round in a cycle"):
        Snapshot.of(taken_at=0, quotas=quotas)


def test_a_chain_of_cohorts_may_be_as_long_as_there_are():
    cohorts = 1000
    quotas = Quotas.of(tenants=0, flavors=1, cohorts=cohorts, parent=[*range(1, cohorts), -1])

    assert Snapshot.of(taken_at=0, quotas=quotas).quotas is quotas


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reservations": "many"}, 'reservations must be a whole number, not "many"'),
        ({"strict": 0}, "strict must be true or false, not 0"),
        ({"order": "lifo"}, 'order must be one of fifo, fair, expansion, not "lifo"'),
        (
            {"default_walltime": {}},
            "default_walltime must be a whole number or null, not an object",
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(values, message):
    document = {"format": "policy", "version": 1, "value": values}

    with pytest.raises(UnreadableError) as caught:
        decode(json.dumps(document), Policy)

    assert str(caught.value) == f"this policy is damaged: {message}"


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (None, "decisions[0] must be an object, not null"),
        (
            {"kind": "bang"},
            f'decisions[0].kind must be one of {DECISIONS}, not "bang"',
        ),
        ({"kind": "grow", "job": 1}, "decisions[0].members is missing"),
        (
            {"kind": "hold", "job": 1, "reason": "no_room", "numbers": [["at", 1.5]]},
            "decisions[0].numbers[0][1] must be a whole number or a text or a list, not 1.5",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(decision, message):
    document = {"format": "plan", "version": 1, "value": {"taken_at": 0, "decisions": [decision]}}

    with pytest.raises(UnreadableError) as caught:
        decode(json.dumps(document), Plan)

    assert str(caught.value) == f"this plan is damaged: {message}"
