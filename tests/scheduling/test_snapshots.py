import numpy as np
import pytest
from django.db import connection
from django.db.models import Count, Sum
from django.test.utils import CaptureQueriesContext

from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN
from scheduling.models import Placement, PlacementGpu
from scheduling.services.lifecycle import stop
from scheduling.services.requests import GroupRequest
from scheduling.snapshots import take
from scheduling.states import JobState
from tests.factories import (
    CohortFactory,
    FabricFactory,
    NodeFactory,
    NvlinkDomainFactory,
    QuotaFactory,
    RackFactory,
    TenantFactory,
)
from tests.scheduling.world import T0, World, after
from topology.models import Gpu, Node

MOST_QUERIES = 25


def count_queries(world):
    with CaptureQueriesContext(connection) as captured:
        take(world.cluster, at=T0)
    return len(captured)


def test_the_number_of_queries_does_not_grow(db):
    small, large = World.of(nodes=1), World.of(nodes=20, gpus=2)
    for world, jobs in ((small, 1), (large, 20)):
        for _ in range(jobs):
            world.submit(gpus=1)
        world.plan()
        for _ in range(jobs):
            world.submit(gpus=1, flavors=(world.flavor,))

    counts = [count_queries(small), count_queries(large)]

    assert counts[0] == counts[1] <= MOST_QUERIES


def test_a_cluster_without_anything_has_a_snapshot(db):
    world = World.of(nodes=0)

    snapshot = take(world.cluster, at=T0)

    assert (snapshot.node_ids, snapshot.gpu_ids, snapshot.pending) == ((), (), ())


def test_nodes_and_devices_stand_in_name_and_index_order(world):
    snapshot = take(world.cluster, at=after(7))

    names = [node.name for node in Node.objects.order_by("name")]
    gpus = Gpu.objects.order_by("node__name", "index").values_list("pk", flat=True)
    assert snapshot.taken_at == int(after(7).timestamp())
    assert list(snapshot.node_names) == names
    assert list(snapshot.gpu_ids) == list(gpus)
    assert snapshot.gpu_node.tolist() == [0] * 8 + [1] * 8
    assert snapshot.capacity.tolist() == [[96_000] * 2, [1_048_576] * 2]
    assert snapshot.flavors[0] == world.flavor.name
    assert snapshot.node_flavor.tolist() == [0, 0]


def test_another_clusters_rows_are_not_in_it(world):
    other = World.of(nodes=3)
    other.running()
    other.submit()

    snapshot = take(world.cluster, at=T0)

    assert (len(snapshot.node_ids), snapshot.pending, snapshot.running) == (2, (), ())
    assert int(snapshot.quotas.usage.sum()) == 0


TAINT = {"key": "team", "value": "storage", "effect": "NoSchedule"}
FOREIGN = {"name": "lab/train", "gpus": 3, "cpu_milli": 1_000, "memory_mib": 64, "scheduler": ""}


@pytest.mark.parametrize(
    "change",
    [
        {"is_cordoned": True},
        {"is_ready": False},
        {"taints": [TAINT]},
        {"others": [FOREIGN | {"scheduler": "volcano"}]},
    ],
    ids=["cordoned", "not ready", "tainted", "of another scheduler"],
)
def test_a_node_that_takes_nobody_is_closed(world, change):
    Node.objects.filter(pk=Node.objects.order_by("name").first().pk).update(**change)

    snapshot = take(world.cluster, at=T0)

    assert snapshot.node_open.tolist() == [False, True]


def test_what_is_not_ours_takes_of_its_node_and_holds_devices_that_no_job_does(world):
    world.started(members=1, gpus=4)
    first = Node.objects.order_by("name").first()
    first.others, first.strays = [FOREIGN], {"u-1": FOREIGN | {"gpus": 0}}
    first.save()

    snapshot = take(world.cluster, at=T0)

    assert snapshot.gpu_free_milli.tolist() == [0] * 4 + [1000] + [0] * 3 + [1000] * 8
    assert (snapshot.capacity - snapshot.free).tolist() == [[2_000, 0], [128, 0]]
    assert snapshot.gpu_open.all()


def test_what_is_not_ours_holds_no_more_devices_than_there_are(world):
    Gpu.objects.filter(node__name=Node.objects.order_by("name").first().name, index=7).update(
        is_healthy=False
    )
    Node.objects.update(others=[FOREIGN | {"gpus": 7}], strays={"u-1": FOREIGN | {"gpus": 5}})

    snapshot = take(world.cluster, at=T0)

    assert snapshot.gpu_free_milli.tolist() == [0] * 7 + [1000] + [0] * 8


def test_a_node_that_went_away_is_not_in_it_and_its_jobs_use_no_quota(world):
    job = world.running(members=2)
    node = job.placements.order_by("pk").first().node
    Node.objects.filter(pk=node.pk).update(gone_at=T0)

    snapshot = take(world.cluster, at=T0)

    assert node.pk not in snapshot.node_ids
    assert int(snapshot.quotas.usage.sum()) == 8 * PARTS_PER_GPU
    assert len(snapshot.running[0].members) == 1


def test_an_unhealthy_device_is_not_handed_out(world):
    first = Gpu.objects.order_by("node__name", "index").first()
    Gpu.objects.filter(pk=first.pk).update(is_healthy=False)

    snapshot = take(world.cluster, at=T0)

    assert snapshot.gpu_open.tolist() == [False] + [True] * 15


def test_usage_and_room_are_the_ledgers(world):
    wanted = (
        GroupRequest(name="a", gpus_per_member=3, cpu_milli=1_000, memory_mib=64),
        GroupRequest(name="b", members=2, gpus_per_member=2, cpu_milli=500),
    )
    world.started(groups=wanted)
    world.running(gpus=4)
    leaving = world.running(gpus=1)
    stop(leaving, towards=JobState.QUEUED, at=T0, reason="moved")

    snapshot = take(world.cluster, at=T0)

    held = set(PlacementGpu.objects.active().values_list("gpu_id", flat=True))
    free = {pk for pk, m in zip(snapshot.gpu_ids, snapshot.gpu_free_milli, strict=True) if m}
    assert int(snapshot.quotas.usage.sum()) == len(held) * PARTS_PER_GPU == 12 * PARTS_PER_GPU
    assert free == set(snapshot.gpu_ids) - held
    assert (snapshot.capacity - snapshot.free).sum(axis=1).tolist() == [2_000, 64]


def test_usage_is_counted_by_tenant(world):
    other = TenantFactory()
    QuotaFactory(tenant=other, flavor=world.flavor, nominal=3)
    world.running(gpus=5)
    by_tenant = dict(
        PlacementGpu.objects.active()
        .values_list("placement__job__tenant")
        .annotate(count=Count("pk"))
    )

    quotas = take(world.cluster, at=T0).quotas

    tenants = sorted([world.tenant.pk, other.pk])
    usage = [by_tenant.get(tenant, 0) * PARTS_PER_GPU for tenant in tenants]
    assert quotas.usage.sum(axis=1).tolist() == usage
    assert (quotas.nominal.sum(axis=1) // PARTS_PER_GPU).tolist() == [16, 3]


def test_what_a_stopping_job_holds_is_on_its_way_back(world):
    job = world.running(groups=(GroupRequest(gpus_per_member=8, cpu_milli=700),))
    stop(job, towards=JobState.QUEUED, at=T0, reason="moved")

    snapshot = take(world.cluster, at=T0)

    assert snapshot.releasing.sum(axis=1).tolist() == [700, 0]
    assert [job.stopping for job in snapshot.running] == [True]


def test_a_failed_job_with_members_left_holds_what_they_hold(world):
    job = world.running(members=2)
    world.say(job, "failed", rank=0)
    world.end(job, "failed")

    snapshot = take(world.cluster, at=T0)

    assert [(own.id, own.stopping, len(own.members)) for own in snapshot.running] == [
        (job.pk, True, 1)
    ]
    assert int(snapshot.quotas.usage.sum()) == 8 * PARTS_PER_GPU


def test_a_member_that_ended_on_a_node_still_in_use_holds_its_devices(world):
    job = world.running(members=2, gpus=4)
    world.say(job, "succeeded", rank=0)

    snapshot = take(world.cluster, at=T0)

    assert (
        int((snapshot.gpu_free_milli == 0).sum())
        == Placement.objects.active().aggregate(held=Sum("member_count"))["held"] * 4
    )


def test_waiting_jobs_stand_in_queue_order(world):
    late, early = world.submit(at=after(5)), world.submit(at=after(1))
    urgent = world.submit(at=after(9))
    type(urgent).objects.filter(pk=urgent.pk).update(priority=10)
    held = world.submit(at=after(10))
    type(held).objects.filter(pk=held.pk).update(is_held=True)

    pending = take(world.cluster, at=after(20)).pending

    assert [job.id for job in pending] == [urgent.pk, early.pk, late.pk, held.pk]
    assert [job.held for job in pending] == [False, False, False, True]


def test_domains_are_the_nodes_own(world):
    fabric, rack = FabricFactory(cluster=world.cluster), RackFactory(cluster=world.cluster)
    domain = NvlinkDomainFactory(cluster=world.cluster)
    NodeFactory(
        cluster=world.cluster,
        flavor=world.flavor,
        name="a-first",
        fabric=fabric,
        rack=rack,
        nvlink_domain=domain,
    )

    snapshot = take(world.cluster, at=T0)

    assert snapshot.domain_names[2] == (rack.name, "")
    assert snapshot.domain_names[4] == (fabric.name, "")
    assert snapshot.domain_names[1][0] == domain.name
    assert snapshot.node_domain.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 1], [0, 0, 0], [0, 1, 1]]


def test_cohorts_come_after_the_tenants_in_the_tree_of_quotas(world):
    top = CohortFactory()
    below = CohortFactory(parent=top)
    world.tenant.cohort = below
    world.tenant.save()
    QuotaFactory(tenant=None, cohort=top, flavor=world.flavor, nominal=5, lending_limit=2)

    quotas = take(world.cluster, at=T0).quotas

    assert quotas.parent.tolist() == [2, UNKNOWN, 1]
    assert int(quotas.nominal[1, 0]) == 5 * PARTS_PER_GPU
    assert int(quotas.lending_limit[1, 0]) == 2 * PARTS_PER_GPU


def test_a_node_whose_room_shrank_under_its_jobs_has_none_left(world):
    job = world.running(groups=(GroupRequest(gpus_per_member=1, cpu_milli=5_000),))
    Node.objects.filter(placements__job=job).update(cpu_milli=1_000)

    snapshot = take(world.cluster, at=T0)

    assert np.sort(snapshot.free[0]).tolist() == [0, 96_000]
