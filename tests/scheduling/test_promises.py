"""Budgets, past use, maintenance and blocks: what operators set, as a cycle sees it."""

import pytest

from portal.core.errors import NotAllowed, Refused
from scheduling.engine.arrays import NEVER, UNLIMITED
from scheduling.engine.plan import Plan, Repartition
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Block
from scheduling.models import Job, LayoutRequest
from scheduling.services.blocks import BlockRequest, promise_block
from scheduling.services.layout_requests import note_layout_requests
from scheduling.services.maintenance import WindowRequest, plan_maintenance
from scheduling.snapshots import take
from scheduling.snapshots.times import seconds
from tenants.models import Budget
from tenants.services.budgets import set_budget
from tests.factories import PlacementFactory, TenantFactory
from tests.scheduling.world import T0, after, operator, state_of

HOUR = 3600
DECAYING = Policy(history_weight=1000, half_life=HOUR)


def budget(world, gpu_hours, *, begin=-HOUR, end=24 * HOUR):
    span = {"from_at": after(begin), "until_at": after(end)}
    return set_budget(world.tenant, world.cluster, gpu_hours=gpu_hours, by=operator(), **span)


def used(world, gpus, begin, end):
    """A job of the tenant that held so many GPUs between two times."""
    job = world.submit(gpus=gpus)
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    released_at = None if end is None else after(end)
    node = world.cluster.nodes.first()
    PlacementFactory(job=job, node=node, bound_at=after(begin), released_at=released_at)


def left(world, at=T0, **policy):
    return int(take(world.cluster, at=at, policy=Policy(**policy)).tenant_budget[0])


def test_a_tenant_without_a_budget_in_force_is_not_limited(world):
    budget(world, 5, begin=-20 * HOUR, end=-10 * HOUR)
    budget(world, 5, begin=10 * HOUR)

    assert left(world) == UNLIMITED


def test_what_was_used_in_the_time_of_the_budget_is_off(world):
    budget(world, 100, begin=-HOUR)
    used(world, 8, -2 * HOUR, -HOUR // 2)  # half an hour of it counts
    used(world, 4, -HOUR, 0)
    used(world, 8, -9 * HOUR, -2 * HOUR)

    assert left(world) == (100 - 4 - 4) * HOUR


def test_what_running_jobs_may_still_use_is_off_too(world):
    budget(world, 100, begin=0)
    world.running(gpus=8, walltime_seconds=2 * HOUR)  # since 10 s

    assert left(world, at=after(HOUR + 10)) == 100 * HOUR - 8 * (HOUR + 10) - 8 * HOUR


def test_nothing_is_left_of_a_budget_that_was_overdrawn(world):
    budget(world, 1)
    used(world, 8, -HOUR, 0)

    assert left(world) == 0


def test_standby_jobs_and_other_tenants_use_nothing_of_it(world):
    budget(world, 10)
    used(world, 8, -HOUR, 0)
    Job.objects.update(is_standby=True)
    used(type(world).of(), 8, -HOUR, 0)

    assert left(world) == 10 * HOUR


def test_a_job_that_the_budget_does_not_last_for_says_so(world):
    budget(world, 10)
    job = world.submit(gpus=8, walltime_seconds=2 * HOUR)
    small = world.submit(gpus=8, walltime_seconds=HOUR)

    world.plan()
    job.refresh_from_db()

    assert (job.reason, state_of(small)) == ("budget_exhausted", "starting")
    assert job.reason_numbers == {"left": 10 * HOUR, "asked": 16 * HOUR}


def test_past_use_is_halved_with_each_half_life(world):
    used(world, 8, -2 * HOUR, -HOUR)

    def past(at):
        return int(take(world.cluster, at=at, policy=DECAYING).tenant_history[0])

    now, later = past(T0), past(after(HOUR))
    # The integral of 8 * 2^-(t / h) for t from one hour to two, with h one hour.
    assert now == round(8 * HOUR * (1 / 2 - 1 / 4) / 0.6931471805599453)
    assert abs(later - now / 2) <= 1


def test_use_that_goes_on_counts_and_use_long_ago_is_forgotten(world):
    used(world, 8, -HOUR, None)
    used(world, 8, -50 * HOUR, -40 * HOUR)

    (past,) = take(world.cluster, at=T0, policy=DECAYING).tenant_history.tolist()

    assert past == round(8 * HOUR * (1 - 1 / 2) / 0.6931471805599453)


def test_past_use_is_not_looked_up_where_it_weighs_nothing(world):
    used(world, 8, -HOUR, 0)

    assert take(world.cluster, at=T0, policy=Policy()).tenant_history.tolist() == [0]


def test_a_node_closes_at_its_next_maintenance(world):
    first, second = world.cluster.nodes.order_by("name")
    for begin in (5 * HOUR, 2 * HOUR):
        span = {"from_at": after(begin), "until_at": after(begin + HOUR)}
        request = WindowRequest(nodes=[first], **span)
        plan_maintenance(request, cluster=world.cluster, by=operator())

    def closes(at):
        return take(world.cluster, at=at).node_closes_at.tolist()

    assert closes(T0) == [seconds(after(2 * HOUR)), NEVER]
    assert closes(after(2 * HOUR + 60)) == [seconds(after(2 * HOUR)), NEVER]  # under way
    assert closes(after(3 * HOUR)) == [seconds(after(5 * HOUR)), NEVER]
    assert second.maintenance_windows.count() == 0


def test_a_job_that_would_not_end_before_the_maintenance_waits(world):
    span = {"from_at": after(HOUR), "until_at": after(2 * HOUR)}
    request = WindowRequest(nodes=world.cluster.nodes.all(), **span)
    plan_maintenance(request, cluster=world.cluster, by=operator())
    long = world.submit(walltime_seconds=2 * HOUR)
    short = world.submit(walltime_seconds=HOUR // 2)

    world.plan()
    long.refresh_from_db()

    assert (long.reason, state_of(short)) == ("maintenance", "starting")


def test_a_block_is_in_the_snapshot_until_it_is_over(world):
    first, second = world.cluster.nodes.order_by("name")
    amounts = {second: 2, first: 8}
    span = {"from_at": after(HOUR), "until_at": after(2 * HOUR), "tenant": world.tenant}
    block = BlockRequest(name="course", amounts=amounts, **span)
    promise_block(block, cluster=world.cluster, by=operator())

    begin, end = seconds(after(HOUR)), seconds(after(2 * HOUR))
    wanted = Block("course", ((0, 8), (1, 2)), begin, end, 0)
    assert take(world.cluster, at=T0).blocks == (wanted,)
    assert take(world.cluster, at=after(2 * HOUR)).blocks == ()


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("nodes", {"amounts": {}}),
        ("until_at", {"until_at": T0}),
        ("gpus", {"gpus": 9}),
        ("name", {"name": "taken"}),
    ],
)
def test_a_block_that_cannot_be_is_refused_by_name(world, field, change):
    node, by = world.cluster.nodes.first(), operator()
    known = {"name": "course", "amounts": {node: 8}, "from_at": T0, "until_at": after(HOUR)}
    if "gpus" in change:
        change = {"amounts": {node: change["gpus"]}}
    taken = BlockRequest(**known | {"name": "taken"})
    promise_block(taken, cluster=world.cluster, by=by)

    with pytest.raises(Refused) as refusal:
        promise_block(BlockRequest(**known | change), cluster=world.cluster, by=by)

    assert refusal.value.field == field


def test_nobody_but_an_operator_sets_any_of_these(world):
    span = {"from_at": T0, "until_at": after(HOUR)}
    window = WindowRequest(nodes=world.cluster.nodes.all(), **span)
    by = world.researcher
    amounts = {world.cluster.nodes.first(): 1}
    block = BlockRequest(name="b", amounts=amounts, **span)

    for deed in (
        lambda: set_budget(world.tenant, world.cluster, gpu_hours=1, by=by, **span),
        lambda: plan_maintenance(window, cluster=world.cluster, by=by),
        lambda: promise_block(block, cluster=world.cluster, by=by),
    ):
        with pytest.raises(NotAllowed):
            deed()


def test_a_budget_that_begins_at_the_same_instant_is_changed(world):
    budget(world, 5)
    budget(world, 7)

    assert list(Budget.objects.values_list("gpu_hours", flat=True)) == [7]


def test_a_layout_that_a_cycle_wants_is_asked_for_once_until_it_is_no_longer(world):
    job = world.submit(gpus=1)
    snapshot = take(world.cluster, at=T0)

    def decide(*layouts, at):
        changes = tuple(Repartition(0, ((profile, 0),), job.pk) for profile in layouts)
        plan = Plan(snapshot.taken_at, changes)
        note_layout_requests(plan, snapshot, cluster=world.cluster, at=after(at))

    decide("1g.10gb", at=0)
    decide("1g.10gb", at=10)
    decide("2g.20gb", at=20)
    decide(at=30)

    rows = LayoutRequest.objects.order_by("pk").values_list("layout", "asked_at", "closed_at")
    assert list(rows) == [
        ([["1g.10gb", 0]], T0, after(20)),
        ([["2g.20gb", 0]], after(20), after(30)),
    ]
    assert {row.gpu_id for row in LayoutRequest.objects.all()} == {snapshot.gpu_ids[0]}


def test_a_tenant_elsewhere_has_its_own_budget(world):
    other = TenantFactory()
    budget(world, 5)

    snapshot = take(world.cluster, at=T0)

    names = dict(zip(snapshot.tenant_ids, snapshot.tenant_budget.tolist(), strict=True))
    assert names == {world.tenant.pk: 5 * HOUR, other.pk: UNLIMITED}
