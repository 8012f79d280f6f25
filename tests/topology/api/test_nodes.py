import pytest
from rest_framework.test import APIClient

from tests.factories import (
    ClusterFactory,
    JobFactory,
    MembershipFactory,
    NodeFactory,
    PlacementFactory,
    PlacementGpuFactory,
    RackFactory,
)
from tests.factories.scheduling import T0

NODES = "/api/v1/nodes"


@pytest.fixture
def api(db):
    client = APIClient()
    client.force_login(MembershipFactory().user)
    return client


@pytest.fixture
def node(db):
    """Node `gpu-01.rack` of cluster `main`: two GPUs, one of them held, one held until lately."""
    cluster = ClusterFactory(slug="main")
    node = NodeFactory(
        cluster=cluster,
        name="gpu-01.rack",
        rack=RackFactory(cluster=cluster, name="r1"),
        flavor__name="h100",
        flavor__gpu_model="H100",
        gpus=2,
    )
    placement = PlacementFactory(job=JobFactory(cluster=cluster), node=node)
    first, second = node.gpus.order_by("index")
    PlacementGpuFactory(member__placement=placement, gpu=first)
    PlacementGpuFactory(member__placement=placement, member__rank=1, gpu=second, released_at=T0)
    return node


def gpu(index, uuid, *, is_free):
    return {
        "index": index,
        "uuid": uuid,
        "model": "H100",
        "memory_mib": None,
        "island": 0,
        "numa": -1,
        "is_healthy": True,
        "is_free": is_free,
    }


def test_a_node_is_told_with_its_devices(api, node):
    first, second = node.gpus.order_by("index")

    body = api.get(f"{NODES}/main/gpu-01.rack").json()

    assert body == {
        "cluster": "main",
        "name": "gpu-01.rack",
        "flavor": "h100",
        "rack": "r1",
        "fabric": None,
        "nvlink_domain": None,
        "cpu_milli": 96000,
        "memory_mib": 1048576,
        "gpu_count": 2,
        "is_ready": True,
        "is_cordoned": False,
        "is_open": True,
        "seen_at": None,
        "gpus": [gpu(0, first.uuid, is_free=False), gpu(1, second.uuid, is_free=True)],
    }


def test_two_clusters_may_each_have_a_node_of_one_name(api, node):
    NodeFactory(name="gpu-01.rack", cluster__slug="second", gpus=4)

    assert api.get(f"{NODES}/second/gpu-01.rack").json()["gpu_count"] == 4
    assert api.get(f"{NODES}/third/gpu-01.rack").status_code == 404


def test_nodes_are_listed_by_name_without_those_that_went_away(api, node):
    NodeFactory(name="a", cluster=node.cluster, flavor=node.flavor)
    NodeFactory(name="b", gone_at=T0)
    NodeFactory(name="c", cluster__slug="second")

    def names(**query):
        return [each["name"] for each in api.get(NODES, query).json()["items"]]

    assert names() == ["a", "c", "gpu-01.rack"]
    assert names(cluster="main") == names(flavor="h100") == ["a", "gpu-01.rack"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_list_costs_the_same_for_any_number(api, count, django_assert_num_queries):
    NodeFactory.create_batch(count, gpus=2)

    with django_assert_num_queries(5):  # session, user, count, nodes, devices
        body = api.get(NODES).json()

    assert [len(each["gpus"]) for each in body["items"]] == [2] * count
