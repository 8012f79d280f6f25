"""Laws that hold for every cluster, whatever is drawn."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.codec import decode, encode
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.invariants import violations
from scheduling.engine.order import in_order
from scheduling.engine.plan import Plan
from scheduling.engine.policy import Order, Policy
from scheduling.engine.snapshot import Snapshot
from tests.engine.strategies import snapshots

law = settings(max_examples=60, deadline=None)
FIFO = Policy(order=Order.FIFO)


@law
@given(snapshots())
def test_every_plan_is_sound(snapshot):
    assert violations(snapshot, plan_cycle(snapshot, FIFO)) == []


@law
@given(snapshots())
def test_a_plan_depends_on_the_snapshot_alone(snapshot):
    before = encode(snapshot)

    first, second = plan_cycle(snapshot, FIFO), plan_cycle(decode(before, Snapshot), FIFO)

    assert encode(first) == encode(second)
    assert encode(snapshot) == before


@law
@given(snapshots())
def test_plans_survive_the_codec(snapshot):
    plan = plan_cycle(snapshot, FIFO)

    assert decode(encode(plan), Plan) == plan


@law
@given(snapshots(), st.integers(0, 4))
def test_more_room_never_turns_the_head_of_the_queue_away(snapshot, node):
    head = {job.id for job in in_order(snapshot.pending)[:1]}
    free = snapshot.gpu_free_milli.copy()
    free[snapshot.gpu_node == node % len(snapshot.node_ids)] = 1000
    roomier = replace(snapshot, gpu_free_milli=free)

    before, after = plan_cycle(snapshot, FIFO), plan_cycle(roomier, FIFO)

    assert {start.job for start in before.starts} & head <= {start.job for start in after.starts}


@law
@given(snapshots())
def test_a_plan_that_starts_a_job_twice_is_caught(snapshot):
    plan = plan_cycle(snapshot, FIFO)
    doubled = Plan(plan.taken_at, plan.decisions * 2)

    assert bool(violations(snapshot, doubled)) == bool(snapshot.pending)


@law
@given(snapshots())
def test_a_plan_that_forgets_a_job_is_caught(snapshot):
    shorter = Plan(snapshot.taken_at, plan_cycle(snapshot, FIFO).decisions[1:])

    assert bool(violations(snapshot, shorter)) == bool(snapshot.pending)


def test_arrays_of_a_snapshot_cannot_be_written_to():
    snapshot = Snapshot.of(taken_at=0, node_ids=(1,), node_names=("a",))

    assert not snapshot.free.flags.writeable
    assert np.array_equal(snapshot.node_open, [True])
