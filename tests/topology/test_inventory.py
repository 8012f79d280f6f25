from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.forms.models import model_to_dict

from tests.factories import ClusterFactory, FlavorFactory, NodeFactory
from topology.kube.values import ClockSeen, GpuSeen, ListBegun, Listed, NodeSeen
from topology.models import (
    Cluster,
    Fabric,
    Gpu,
    MigInstance,
    Node,
    NvlinkDomain,
    Rack,
    ResourceFlavor,
)
from topology.services.inventory import (
    observe_clock,
    observe_listed_nodes,
    observe_node,
    observe_nodes_list_begun,
)

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 1, 5, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def gpu(index, **changes):
    known = {"index": index, "uuid": f"GPU-{index}", "model": "L40S", "memory_mib": 46_068}
    return GpuSeen(**(known | changes))


SEEN = NodeSeen(
    name="gpu-01",
    uid="u-1",
    version=10,
    cpu_milli=64_000,
    memory_mib=524_288,
    gpu_count=2,
    gpu_product="NVIDIA L40S",
    gpu_memory_mib=46_068,
    rack="rack-1",
    fabric="ethernet-1",
    nvlink_domain="domain-1",
    gpus=(gpu(0, island=0, numa=0), gpu(1, island=1, numa=1)),
    survey={"driver": {"state": "ok"}, "gpudirect": "no"},
    taints=({"key": "team", "value": "storage", "effect": "NoSchedule"},),
)


def rows():
    """Every row that the inventory keeps, as plain values."""
    models = (Fabric, Rack, NvlinkDomain, ResourceFlavor, Node, Gpu, MigInstance)
    return [model_to_dict(row) for model in models for row in model.objects.order_by("pk")]


def cycles_asked(cluster):
    return Cluster.objects.get(pk=cluster.pk).cycle_asked


def test_a_node_is_written_down_with_all_that_it_has():
    cluster = ClusterFactory()

    observe_node(cluster, SEEN, at=T0)

    node = Node.objects.select_related("flavor", "rack__fabric", "nvlink_domain").get()
    assert model_to_dict(node, exclude=["id", "flavor", "rack", "fabric", "nvlink_domain"]) == {
        "cluster": cluster.pk,
        "name": "gpu-01",
        "uid": "u-1",
        "cpu_milli": 64_000,
        "memory_mib": 524_288,
        "gpu_count": 2,
        "is_cordoned": False,
        "is_ready": True,
        "is_changing": False,
        "claimable": {},
        "layout_seen": {
            "offers": {},
            "mig_config": "",
            "mig_state": "",
            "plugin_config": "",
            "strategy": "none",
            "sharing": "",
            "replicas": 1,
            "paused": [],
        },
        "back_ends": [],
        "survey": {"driver": {"state": "ok"}, "gpudirect": "no"},
        "taints": [{"key": "team", "value": "storage", "effect": "NoSchedule"}],
        "others": [],
        "strays": {},
        "seen_version": 10,
        "seen_at": T0,
        "gone_at": None,
    }
    assert (node.flavor.name, node.flavor.gpu_model, node.flavor.gpu_memory_mib) == (
        "nvidia-l40s",
        "NVIDIA L40S",
        46_068,
    )
    assert (node.rack.name, node.rack.fabric.name, node.fabric.name, node.nvlink_domain.name) == (
        "rack-1",
        "ethernet-1",
        "ethernet-1",
        "domain-1",
    )
    found = node.gpus.order_by("index").values_list("index", "uuid", "island", "numa", "is_healthy")
    assert list(found) == [(0, "GPU-0", 0, 0, True), (1, "GPU-1", 1, 1, True)]


def test_the_same_report_twice_changes_nothing_the_second_time():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)
    before, asked = rows(), cycles_asked(cluster)

    mattered = observe_node(cluster, SEEN, at=T0 + SECOND)

    assert (mattered, rows(), cycles_asked(cluster)) == (False, before, asked)


def test_an_older_report_is_ignored():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)
    before = rows()

    observe_node(cluster, replace(SEEN, version=9, is_cordoned=True), at=T0 + SECOND)

    assert rows() == before


def test_another_machine_of_the_same_name_is_believed_whatever_its_version():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)

    observe_node(cluster, replace(SEEN, uid="u-2", version=3), at=T0 + SECOND)

    assert Node.objects.values_list("uid", "seen_version").get() == ("u-2", 3)


@pytest.mark.parametrize(
    "change",
    [
        {"is_cordoned": True},
        {"is_ready": False},
        {"gpu_count": 1},
        {"memory_mib": 1024},
        {"rack": "rack-2"},
        {"taints": ()},
        {"gpus": (gpu(0, island=0, numa=0), gpu(1, island=1, numa=1, healthy=False))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_that_a_plan_looks_at_asks_for_a_cycle(
    sent, django_capture_on_commit_callbacks, change
):
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)
    asked = cycles_asked(cluster)

    with django_capture_on_commit_callbacks(execute=True):
        observe_node(cluster, replace(SEEN, version=11, **change), at=T0 + SECOND)

    assert sent == [("scheduling.run_cycle", {"cluster_id": cluster.pk})]
    assert cycles_asked(cluster) == asked + 1


def test_a_heartbeat_asks_for_no_cycle():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)
    asked = cycles_asked(cluster)

    observe_node(cluster, replace(SEEN, version=11), at=T0 + SECOND)

    assert cycles_asked(cluster) == asked
    assert Node.objects.values_list("seen_version", "seen_at").get() == (11, T0 + SECOND)


def test_a_node_that_leaves_keeps_its_row_and_may_come_back():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)

    observe_node(cluster, replace(SEEN, version=11, gone=True), at=T0 + SECOND)
    gone_at = Node.objects.get().gone_at
    observe_node(cluster, replace(SEEN, uid="u-2", version=12), at=T0 + 2 * SECOND)

    assert (gone_at, Node.objects.get().gone_at) == (T0 + SECOND, None)
    assert cycles_asked(cluster) == 3


def test_the_leaving_of_its_predecessor_does_not_take_a_node_away():
    cluster = ClusterFactory()
    observe_node(cluster, replace(SEEN, uid="u-2", version=12), at=T0)

    observe_node(cluster, replace(SEEN, version=11, gone=True), at=T0 + SECOND)

    assert Node.objects.get().gone_at is None


def test_a_node_that_was_never_known_may_leave():
    cluster = ClusterFactory()

    observe_node(cluster, replace(SEEN, gone=True), at=T0)

    assert (Node.objects.count(), cycles_asked(cluster)) == (0, 0)


def test_nodes_that_a_full_list_lacks_are_gone():
    cluster = ClusterFactory()
    here = NodeFactory(cluster=cluster, gpus=0)
    gone = NodeFactory(cluster=cluster, gpus=0)
    elsewhere = NodeFactory(gpus=0)
    listed = Listed(kind="nodes", keys=frozenset({here.name}), version=20)

    count = observe_listed_nodes(cluster, listed, at=T0)
    again = observe_listed_nodes(cluster, listed, at=T0 + SECOND)

    known = dict(Node.objects.values_list("pk", "gone_at"))
    assert known == {here.pk: None, gone.pk: T0, elsewhere.pk: None}
    assert (count, again, cycles_asked(cluster)) == (1, 0, 1)


def test_a_node_of_a_cluster_that_was_restored_is_followed_on():
    cluster = ClusterFactory()
    observe_node(cluster, replace(SEEN, version=5000), at=T0)

    observe_nodes_list_begun(cluster, ListBegun(kind="nodes", version=7))
    observe_node(cluster, replace(SEEN, version=6, is_cordoned=True), at=T0 + SECOND)

    assert Node.objects.get().is_cordoned


def test_a_gpu_that_is_no_longer_reported_is_unhealthy_and_kept():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)

    observe_node(cluster, replace(SEEN, version=11, gpus=(gpu(0),)), at=T0 + SECOND)

    found = Gpu.objects.order_by("index").values_list("index", "is_healthy")
    assert list(found) == [(0, True), (1, False)]


def instances(**where):
    found = MigInstance.objects.filter(**where).order_by("gpu__index", "start", "pk")
    return list(found.values_list("gpu__index", "profile", "start"))


def test_a_board_that_is_cut_anew_keeps_the_slices_that_stay_and_the_rows_of_those_that_go():
    cluster = ClusterFactory()
    cut = gpu(0, mode="mig", slices=(("1g.5gb", 0), ("3g.20gb", 4)))
    observe_node(cluster, replace(SEEN, gpus=(cut, gpu(1))), at=T0)
    stays = MigInstance.objects.get(start=4)
    asked = cycles_asked(cluster)
    anew = gpu(0, mode="mig", slices=(("2g.10gb", 0), ("3g.20gb", 4)))

    observe_node(cluster, replace(SEEN, version=11, gpus=(anew, gpu(1))), at=T0 + SECOND)

    assert instances(gone_at=None) == [(0, "2g.10gb", 0), (0, "3g.20gb", 4)]
    assert instances(gone_at=T0 + SECOND) == [(0, "1g.5gb", 0)]
    assert MigInstance.objects.get(start=4) == stays
    assert cycles_asked(cluster) == asked + 1


def test_how_boards_are_shared_is_written_down():
    cluster = ClusterFactory()
    shared = gpu(0, mode="time_slicing", replicas=4)

    observe_node(cluster, replace(SEEN, gpus=(shared, gpu(1))), at=T0)

    found = Gpu.objects.order_by("index").values_list("mode", "replicas")
    assert list(found) == [("time_slicing", 4), ("exclusive", 1)]


def test_gpus_move_up_when_one_falls_out():
    cluster = ClusterFactory()
    three = (gpu(0), gpu(1), gpu(2))
    observe_node(cluster, replace(SEEN, gpus=three), at=T0)
    left = (gpu(0), gpu(1, uuid="GPU-2"))

    observe_node(cluster, replace(SEEN, version=11, gpus=left), at=T0 + SECOND)

    found = Gpu.objects.order_by("index").values_list("index", "uuid", "is_healthy")
    assert list(found) == [(0, "GPU-0", True), (1, "GPU-2", True), (2, "moved-2", False)]


def test_gpus_may_change_places():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)
    swapped = (gpu(0, uuid="GPU-1"), gpu(1, uuid="GPU-0"))

    observe_node(cluster, replace(SEEN, version=11, gpus=swapped), at=T0 + SECOND)

    found = Gpu.objects.order_by("index").values_list("index", "uuid")
    assert list(found) == [(0, "GPU-1"), (1, "GPU-0")]


def test_a_flavor_that_is_there_is_kept_with_its_name():
    cluster = ClusterFactory()
    flavor = FlavorFactory(cluster=cluster, name="L40S", gpu_model="NVIDIA L40S")

    observe_node(cluster, SEEN, at=T0)

    assert (Node.objects.get().flavor, ResourceFlavor.objects.count()) == (flavor, 1)


def test_two_products_of_one_slug_make_two_flavors():
    cluster = ClusterFactory()
    observe_node(cluster, SEEN, at=T0)

    observe_node(cluster, replace(SEEN, name="gpu-02", gpu_product="NVIDIA-L40S"), at=T0)

    found = ResourceFlavor.objects.order_by("pk").values_list("name", "gpu_model")
    assert list(found) == [("nvidia-l40s", "NVIDIA L40S"), ("nvidia-l40s-2", "NVIDIA-L40S")]


def test_a_node_without_gpus_has_no_flavor():
    observe_node(ClusterFactory(), NodeSeen(name="cpu-01", version=1), at=T0)

    assert Node.objects.values_list("flavor", "rack", "fabric").get() == (None, None, None)


def clock_of(cluster):
    found = Cluster.objects.get(pk=cluster.pk)
    return found.clock_at, found.clock_wall_at, found.clock_speed, found.seen_at


READ = ClockSeen(at=T0, wall=T0, speed=60.0)


def test_a_clock_is_written_down():
    cluster = ClusterFactory()

    observe_clock(cluster, READ)

    assert clock_of(cluster) == (T0, T0, 60.0, T0)
    assert cluster.clock_at == T0


@pytest.mark.parametrize(
    "later",
    [
        replace(READ, at=T0 + 60 * SECOND, wall=T0 + SECOND),
        replace(READ, at=T0 + 63 * SECOND, wall=T0 + SECOND),
        replace(READ, at=T0 + 90 * SECOND, wall=T0 + SECOND, slack=SECOND / 2),
    ],
    ids=["as foreseen", "nearly", "perhaps"],
)
def test_a_clock_that_goes_as_foreseen_is_not_written_again(later, django_assert_num_queries):
    cluster = ClusterFactory()
    observe_clock(cluster, READ)

    with django_assert_num_queries(0):
        observe_clock(cluster, later)


@pytest.mark.parametrize(
    "later",
    [
        replace(READ, at=T0 + 90 * SECOND, wall=T0 + SECOND),
        replace(READ, at=T0 + 60 * SECOND, wall=T0 + SECOND, speed=1.0),
        replace(READ, at=T0 + 60 * SECOND, wall=T0 + SECOND, speed=0.0),
    ],
    ids=["stepped", "slowed", "stopped"],
)
def test_a_clock_that_is_set_is_written_again(later):
    cluster = ClusterFactory()
    observe_clock(cluster, READ)

    observe_clock(cluster, later)

    assert clock_of(cluster) == (later.at, later.wall, later.speed, later.wall)


def test_that_a_cluster_answers_is_noted_every_half_minute():
    cluster = ClusterFactory()
    seconds = (0, 29, 30, 59, 61)

    for second in seconds:
        observe_clock(cluster, ClockSeen(at=None, wall=T0 + second * SECOND))

    assert clock_of(cluster) == (None, None, 1.0, T0 + 61 * SECOND)


def test_a_cluster_on_wall_time_keeps_no_clock_of_its_own(django_assert_num_queries):
    cluster = ClusterFactory()
    observe_clock(cluster, ClockSeen(at=None, wall=T0))

    with django_assert_num_queries(0):
        observe_clock(cluster, ClockSeen(at=None, wall=T0 + 29 * SECOND))
