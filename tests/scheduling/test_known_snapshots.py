"""What a process knows of a cluster changes no snapshot, whoever changed what in the meantime."""

import random
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.engine.codec import encode
from scheduling.engine.policy import Policy
from scheduling.models import (
    BlockPart,
    DeviceHold,
    Job,
    JobFlavor,
    JobGroup,
    Member,
    Placement,
    PlacementGpu,
)
from scheduling.services.lifecycle import stop
from scheduling.snapshots import known, take, take_knowing
from scheduling.snapshots.known import Known, own_known
from scheduling.states import JobState
from tenants.models import Budget, Quota, Tenant
from tests.factories import (
    BlockPartFactory,
    CohortFactory,
    DeviceHoldFactory,
    FabricFactory,
    FlavorFactory,
    GpuFactory,
    JobDependencyFactory,
    JobFlavorFactory,
    MaintenanceWindowFactory,
    NodeFactory,
    NvlinkDomainFactory,
    RackFactory,
    TenantFactory,
)
from tests.scheduling.world import T0, World, after
from topology.models import Gpu, Node, NvlinkDomain, Rack, ResourceFlavor

WITH_HISTORY = Policy(history_weight=1000, half_life=3600, default_walltime=600)
FACTORIES = (
    *(CohortFactory, TenantFactory),
    *(FabricFactory, FlavorFactory, MaintenanceWindowFactory, NvlinkDomainFactory, RackFactory),
)
LEVELS = ("", "node", "rack", "fabric")
VALUES = {
    Job: {
        "priority": (0, 5),
        "state": ("queued", "starting", "running", "succeeded", "failed"),
        "submitted_at": (T0, after(3)),
        "started_at": (None, after(3), after(4)),
        "walltime_seconds": (None, 60, 7_200),
        "min_total": (None, 1),
        "is_held": (True, False),
        "is_preemptible": (True, False),
        "is_standby": (True, False),
        "gpu_memory_mib": (0, 40_960),
        "required_level": LEVELS,
        "preferred_level": LEVELS,
        "patience_seconds": (None, 60),
        "needs_island": (True, False),
        "service_class": ("training", "offline"),
        "not_before": (None, after(900)),
        "start_again_at": (None, after(800), after(1000)),
        "grace_seconds": (None, 30),
        "checkpoint_at": (None, after(5), after(6)),
        "preempted_count": (0, 1),
        "protected_until": (None, after(100)),
        "attempt": (1, 2),
    },
    JobGroup: {
        "name": ("main", "actor"),
        "min_member": (1, 2),
        "max_member": (2, 4),
        "gpus_per_member": (0, 1, 2),
        "cpu_milli": (0, 1_000),
        "memory_mib": (0, 64),
    },
    Placement: {"member_count": (1, 2), "released_at": (None, after(50))},
    Member: {
        "phase": ("running", "bound", "succeeded", "gone"),
        "is_leaving": (True, False),
        "rank": (0, 1, 7),
    },
    PlacementGpu: {"released_at": (None, after(50))},
    Node: {
        "cpu_milli": (1_000, 96_000),
        "memory_mib": (100, 1_048_576),
        "is_cordoned": (True, False),
        "is_ready": (True, False),
        "name": ("aa", "zz"),
        "gone_at": (None, T0),
        "seen_version": (3, 4),
    },
    Gpu: {
        "model": ("a", "b"),
        "memory_mib": (None, 40_960),
        "island": (0, 1),
        "numa": (-1, 0),
        "is_healthy": (True, False),
        "index": (0, 7, 9),
    },
    ResourceFlavor: {"name": ("aa", "zz")},
    Rack: {"name": ("aa", "zz")},
    NvlinkDomain: {"name": ("aa", "zz")},
    Tenant: {"is_strict": (True, False), "weight": (1, 2), "slug": ("aa", "zz")},
    Quota: {"nominal": (0, 5), "borrowing_limit": (None, 3)},
    Budget: {"gpu_hours": (1, 500)},
    DeviceHold: {"until": (T0, after(600))},
    BlockPart: {"gpus": (1, 2)},
}
"""Columns that a snapshot is made of, and some that it is not."""


def any_row(dice, model):
    keys = list(model.objects.order_by("pk").values_list("pk", flat=True))
    return dice.choice(keys) if keys else None


def set_a_column(world, dice):
    model = dice.choice(list(VALUES))
    name = dice.choice(list(VALUES[model]))
    row = model.objects.filter(pk=any_row(dice, model))
    row.update(**{name: dice.choice(VALUES[model][name])})


def point_a_row_elsewhere(world, dice):
    model, name, other = dice.choice(
        [
            *((Node, "rack_id", Rack), (Node, "flavor_id", ResourceFlavor)),
            *((Node, "nvlink_domain_id", NvlinkDomain), (Gpu, "node_id", Node)),
            *((Job, "stopping_for_id", Job), (Job, "tenant_id", Tenant)),
            *((Placement, "node_id", Node), (PlacementGpu, "gpu_id", Gpu)),
        ]
    )
    model.objects.filter(pk=any_row(dice, model)).update(**{name: any_row(dice, other)})


def remove_a_row(world, dice):
    model = dice.choice([JobFlavor, PlacementGpu, DeviceHold, Quota])
    model.objects.filter(pk=any_row(dice, model)).delete()


def add_a_row(world, dice):
    kind = dice.choice(FACTORIES)
    kind(**{} if kind in {CohortFactory, TenantFactory} else {"cluster": world.cluster})


def add_to_a_node(world, dice):
    node = Node.objects.get(pk=any_row(dice, Node))
    kind = dice.choice([GpuFactory, BlockPartFactory, DeviceHoldFactory, None])
    if kind is None:
        NodeFactory(cluster=world.cluster, flavor=world.flavor, gpus=2)
    elif kind is GpuFactory:
        GpuFactory(node=node, index=11)
    elif kind is BlockPartFactory:
        BlockPartFactory(node=node, block__cluster=world.cluster)
    else:
        DeviceHoldFactory(node=node, job_id=any_row(dice, Job))


def add_to_a_job(world, dice):
    one, other = any_row(dice, Job), any_row(dice, Job)
    if dice.random() < 0.5:
        JobFlavorFactory(job_id=one, flavor_id=any_row(dice, ResourceFlavor))
    else:
        JobDependencyFactory(job_id=max(one, other), on_id=min(one, other))


def submit_some(world, dice):
    for _ in range(dice.randrange(1, 4)):
        world.submit(
            members=dice.choice([1, 2]), gpus=dice.choice([0, 1, 2]), at=after(dice.randrange(60))
        )


def let_one_run(world, dice):
    world.running(gpus=dice.choice([0, 1, 2]), members=dice.choice([1, 2]), walltime_seconds=60)


CHANGES = (
    *[set_a_column] * 8,
    *[point_a_row_elsewhere] * 2,
    *(remove_a_row, add_a_row, add_to_a_node, add_to_a_job, submit_some, let_one_run),
)


def change(world, dice):
    """Something that the database allows; how often it is not allowed does not matter."""
    try:
        with transaction.atomic():
            dice.choice(CHANGES)(world, dice)
    except (IntegrityError, KeyError, AssertionError):
        pass  # a row that may not be so, or a world in which no cycle is possible any more


MORE = [pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40)]


@pytest.mark.parametrize("seed", [*range(3), *MORE])
def test_what_is_known_changes_no_snapshot(db, seed):
    dice = random.Random(seed)  # noqa: S311 - changes that can be made again
    world = World.of(nodes=3, gpus=4)
    world.running(gpus=2, members=2)
    workers, seen = [Known(), Known()], set()

    for step in range(30):
        change(world, dice)
        when = {"at": after(100 + step), "policy": WITH_HISTORY}
        cold = take_knowing(Known(), world.cluster, **when)
        # The second worker comes to it when more than one thing has changed.
        warm = take_knowing(workers[step % 3 == 0], world.cluster, **when)
        assert encode(warm) == encode(cold)
        seen.add(encode(replace(cold, taken_at=0)))

    assert len(seen) > 10


def test_what_another_process_changes_is_seen(transactional_db):
    world = World.of(nodes=1)
    job = world.running()
    before = take(world.cluster, at=T0)

    with psycopg.connect(**connection.get_connection_params()) as elsewhere:
        elsewhere.execute("UPDATE scheduling_job SET priority = 7 WHERE id = %s", [job.pk])
        elsewhere.execute("UPDATE topology_node SET is_cordoned = true")
    after_it = take(world.cluster, at=T0)

    assert [before.running[0].priority, after_it.running[0].priority] == [0, 7]
    assert [before.node_open.tolist(), after_it.node_open.tolist()] == [[True], [False]]


def test_what_did_not_change_is_the_same_object(world):
    stays, goes = world.running(gpus=1), world.running(gpus=1)
    waits = world.submit(gpus=8, members=9)
    Node.objects.filter(pk=world.cluster.nodes.first().pk).update(is_cordoned=True)
    before = take(world.cluster, at=T0)

    Node.objects.update(is_cordoned=False)
    stop(goes, towards=JobState.QUEUED, at=T0, reason="moved")
    now = take(world.cluster, at=after(10))

    jobs = {job.id: job for job in (*before.running, *before.pending)}
    same = {job.id for job in (*now.running, *now.pending) if job is jobs[job.id]}
    assert same == {stays.pk, waits.pk}
    assert now.gpu_node is before.gpu_node
    assert now.node_domain is before.node_domain
    assert now.node_open.tolist() != before.node_open.tolist()


def test_rows_beside_the_job_and_its_places_count_as_well(world):
    parent, gang = world.running(gpus=1), world.running(members=2, gpus=7)
    world.say(gang, "succeeded", rank=0)
    waits = world.submit(gpus=8, members=9)
    JobDependencyFactory(job=waits, on=parent)
    before = take(world.cluster, at=T0)

    JobFlavorFactory(job=waits, flavor=world.flavor)
    Job.objects.filter(pk=parent.pk).update(state=JobState.SUCCEEDED)
    Member.objects.filter(job=gang, rank=0).update(is_leaving=True)
    now = take(world.cluster, at=T0)

    waiting = [snapshot.pending[0] for snapshot in (before, now)]
    assert [job.flavors for job in waiting] == [(), (0,)]
    assert [job.after[0].state for job in waiting] == ["waiting", "succeeded"]
    assert encode(now) == encode(take_knowing(Known(), world.cluster, at=T0))
    sizes = [snapshot.running[1].groups[0].min_member for snapshot in (before, now)]
    assert sizes == [1, 2]


def test_a_job_that_has_not_started_yet_has_run_for_no_time(world):
    world.started(walltime_seconds=60)

    first, second = (take(world.cluster, at=at).running[0] for at in (T0, after(30)))

    assert second.started_at - first.started_at == 30
    assert second.limit_end_at == second.started_at + 60


@pytest.mark.parametrize("named", [0, known.MOST_NAMED])
def test_it_does_not_matter_how_many_jobs_are_not_known(world, monkeypatch, named):
    monkeypatch.setattr(known, "MOST_NAMED", named)
    knowing = Known()
    for _ in range(2):
        world.running(gpus=1)
        world.submit(gpus=8, members=9)
        warm = take_knowing(knowing, world.cluster, at=T0)

    assert encode(warm) == encode(take_knowing(Known(), world.cluster, at=T0))
    assert [len(warm.running), len(warm.pending)] == [2, 2]


def queries(knowing, world):
    with CaptureQueriesContext(connection) as captured:
        take_knowing(knowing, world.cluster, at=T0)
    return len(captured)


@pytest.mark.parametrize("count", [1, 5])
def test_the_number_of_queries_depends_on_nothing_but_whether_anything_changed(db, count):
    world, knowing = World.of(nodes=count, gpus=2), Known()
    for _ in range(count):
        world.running(gpus=1)
        world.submit(gpus=2, members=9)
    cold, warm = queries(knowing, world), queries(knowing, world)

    Node.objects.update(cpu_milli=1)
    Job.objects.update(priority=3)

    # Two for the hardware, one for the waiting jobs, two for those that hold places.
    assert [cold, warm, queries(knowing, world)] == [24, 19, 24]


def test_after_a_failure_nothing_is_known():
    with own_known(-1) as first:
        first.positions = "somewhere"
    with suppress(KeyError), own_known(-1) as again:
        raise KeyError

    with own_known(-1) as anew:
        assert again is first
        assert anew == Known()


def test_two_at_a_time_do_not_share_what_is_known():
    with own_known(-2) as one, own_known(-2) as other:
        assert one is not other
