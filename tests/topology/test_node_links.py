"""What a page shows of a node's links, from what its agent said."""

import pytest

from simcluster.clock import Clock
from simcluster.fleet import node_object, parse_nodes
from tests.factories import ClusterFactory, NodeFactory
from tests.factories.topology import T0
from topology.kube.parse import node_seen
from topology.models import Node, ResourceFlavor
from topology.reports.links import link_table, survey_of
from topology.services.inventory import observe_node

pytestmark = pytest.mark.django_db
PAIR = {
    "gpus": [0, 1],
    "links": ["NV4"],
    "nics": {"mlx5_0": "InfiniBand"},
    "nic_links": ["PIX", "SYS"],
}


def surveyed(**survey):
    return NodeFactory(gpus=2, survey=survey)


def test_a_table_has_each_link_twice_and_explains_those_that_occur():
    table = link_table(surveyed(links=PAIR))

    first, second = table.rows
    assert ([str(link) for link in first.links], [str(link) for link in second.links]) == (
        ["None", "NV4"],
        ["NV4", "None"],
    )
    assert (first.nearest, first.island, second.island) == (("mlx5_0",), 0, 0)
    assert [word for word, _meaning in table.kinds] == ["NV", "PIX", "SYS"]
    assert table.nics == (("mlx5_0", "InfiniBand"),)


@pytest.mark.parametrize(
    "links", [{}, {"gpus": [0, 1]}, {"gpus": "01", "links": 3}, {"links": ["NV1"]}, {"gpus": [[]]}]
)
def test_what_is_not_understood_is_not_shown(links):
    assert link_table(surveyed(links=links)) is None


def test_the_driver_and_lost_gpus_are_said():
    found = survey_of(
        surveyed(driver={"state": "ok", "version": "580.1", "lost": [3]}, gpudirect="yes")
    )

    assert (str(found.driver), found.version, found.lost) == ("answers", "580.1", (3,))
    assert str(found.gpudirect) == "network cards reach GPU memory directly"


def test_a_node_without_an_agent_says_nothing():
    assert survey_of(surveyed()) is None
    assert link_table(surveyed()) is None


def seen_of(nodes):
    (spec,) = parse_nodes(nodes)
    return node_seen(node_object(spec, Clock(0.0, speed=1.0, frozen=True), number=0, tainted=False))


def test_what_an_agent_says_comes_to_the_row_and_asks_for_no_cycle():
    cluster = ClusterFactory()
    seen = seen_of("1xA100-80GB:8")

    observe_node(cluster, seen, at=T0)
    asked = type(cluster).objects.get().cycle_asked
    changed = {**seen.survey, "driver": {"state": "hangs"}}
    matters = observe_node(cluster, _with(seen, survey=changed), at=T0)

    node = Node.objects.get()
    table = link_table(node)
    assert (matters, type(cluster).objects.get().cycle_asked) == (False, asked)
    assert str(survey_of(node).driver) == "does not answer in time"
    assert [str(link) for link in table.rows[0].links[1:]] == ["NV12"] * 7
    assert table.rows[5].nearest == ("mlx5_2",)


def _with(seen, **changes):
    values = {name: getattr(seen, name) for name in type(seen).__slots__}
    return type(seen)(**{**values, **changes, "version": seen.version + 1})


def edge(labels, *, notes=None, gpus="1"):
    """A node of a K3s cluster on one machine, as its kubelet and its device plugin make it."""
    return {
        "metadata": {
            "name": "orin",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {
                "kubernetes.io/arch": "arm64",
                "node.kubernetes.io/instance-type": "k3s",
                "node-role.kubernetes.io/control-plane": "true",
            }
            | labels,
            "annotations": notes or {},
        },
        "spec": {},
        "status": {
            "capacity": {"nvidia.com/gpu": gpus, "cpu": "8", "memory": "30Gi"},
            "allocatable": {"nvidia.com/gpu": gpus, "cpu": "8", "memory": "30Gi"},
        },
    }


TEGRA = '[{"index":0,"uuid":"tegra","model":"Jetson AGX Orin","memory_mib":30536}]'


@pytest.mark.parametrize(
    ("obj", "model", "memory"),
    [
        (edge({}), "NVIDIA-GPU-arm64", None),
        (edge({"muster.dev/class": "jetson-orin"}), "jetson-orin", None),
        (edge({}, notes={"muster.dev/gpus": TEGRA}), "Jetson AGX Orin", 30_536),
        (edge({"nvidia.com/gpu.product": "Orin-(nvgpu)"}), "Orin-(nvgpu)", None),
    ],
)
def test_a_single_small_gpu_is_a_flavor_of_its_own_whoever_tells_its_name(obj, model, memory):
    observe_node(ClusterFactory(), node_seen(obj), at=T0)

    flavor, node = ResourceFlavor.objects.get(), Node.objects.get()
    (gpu,) = node.gpus.all()
    assert (flavor.gpu_model, flavor.gpu_memory_mib, gpu.model) == (model, memory, model)
    assert (node.flavor, node.gpu_count, link_table(node)) == (flavor, 1, None)


def test_one_gpu_that_is_shared_among_services_is_one_board():
    labels = {
        "nvidia.com/gpu.product": "Orin-(nvgpu)-SHARED",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.replicas": "4",
    }

    observe_node(ClusterFactory(), node_seen(edge(labels, gpus="4")), at=T0)

    node = Node.objects.get()
    (gpu,) = node.gpus.all()
    assert (node.gpu_count, gpu.mode, gpu.replicas) == (1, "time_slicing", 4)
    assert node.flavor.gpu_model == "Orin-(nvgpu)"
