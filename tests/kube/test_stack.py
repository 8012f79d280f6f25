"""What gives the GPU software of a cluster away."""

import pytest

from simcluster.testing import running_cluster
from topology.kube.live import connect
from topology.kube.stack import PartSeen, stack_of
from topology.kube.wire import ApiError


class Wire:
    """Answers with lists, by path; what it has no list of is not served, or closed."""

    def __init__(self, lists, *, groups=(), kinds=None, closed=()):
        self.lists, self.groups, self.kinds, self.closed = lists, groups, kinds or {}, closed

    def ask(self, request):
        if request.path in self.closed:
            raise ApiError(403, reason="Forbidden", message="no")
        if request.path == "/version":
            return {"gitVersion": "v1.36.1"}
        if request.path == "/apis":
            return {"groups": [{"name": name} for name in self.groups]}
        if request.path in self.kinds:
            return {"resources": [{"name": name} for name in self.kinds[request.path]]}
        if request.path not in self.lists:
            raise ApiError(404, reason="NotFound", message="no such kind")
        return {"metadata": {}, "items": self.lists[request.path]}


def node(name="a", *, labels=None, notes=None, **room):
    offered = {key.replace("_", "."): value for key, value in room.items()}
    status = {"capacity": offered, "allocatable": offered}
    return {
        "metadata": {"name": name, "labels": labels or {}, "annotations": notes or {}},
        "status": status,
    }


def gpu_node(name="a", count="8", **said):
    found = node(name, **said)
    found["status"] = {
        "capacity": {"nvidia.com/gpu": count},
        "allocatable": {"nvidia.com/gpu": count},
    }
    return found


def workload(image, container="main", ready=None):
    pod = {"containers": [{"name": container, "image": image}]}
    status = {} if ready is None else {"numberReady": ready}
    return {"metadata": {"name": "w"}, "spec": {"template": {"spec": pod}}, "status": status}


NODES, DAEMONS = "/api/v1/nodes", "/apis/apps/v1/daemonsets"
DEPLOYMENTS = "/apis/apps/v1/deployments"


def part(lists, key, **wire):
    (found,) = [part for part in stack_of(Wire(lists, **wire)).parts if part.key == key]
    return found


DAEMON_IMAGES = {
    "driver": ("nvcr.io/nvidia/driver:580.95.05-ubuntu22.04", "nvidia-driver-ctr"),
    "toolkit": ("nvcr.io/nvidia/k8s/container-toolkit:v1.18.0", "nvidia-container-toolkit-ctr"),
    "device_plugin": ("registry:5000/nvidia/k8s-device-plugin:v0.18.0", "nvidia-device-plugin"),
    "gfd": ("nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "gpu-feature-discovery"),
    "dcgm_exporter": ("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0@sha256:ab", "nvidia-dcgm"),
    "mig_manager": ("nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.13.0", "nvidia-mig-manager"),
    "dra_driver": ("registry.k8s.io/dra/dra-driver-nvidia-gpu:v25.8.0", "gpus"),
    "hami": ("docker.io/projecthami/hami:v2.7.0", "device-plugin"),
}
VERSIONS = {
    "driver": "580.95.05-ubuntu22.04",
    "toolkit": "v1.18.0",
    "device_plugin": "v0.18.0",
    "gfd": "v0.18.0",
    "dcgm_exporter": "4.4.1-4.6.0",
    "mig_manager": "v0.13.0",
    "dra_driver": "v25.8.0",
    "hami": "v2.7.0",
}


@pytest.mark.parametrize("key", DAEMON_IMAGES)
def test_a_daemon_is_known_by_its_image_and_no_other_by_it(key):
    bare = node(labels={"nvidia.com/gpu.present": "true"})
    lists = {NODES: [bare], DAEMONS: [workload(*DAEMON_IMAGES[key], ready=1)]}

    found = [part for part in stack_of(Wire(lists)).parts if part.is_there]

    assert found == [PartSeen(key=key, is_there=True, versions=(VERSIONS[key],), nodes=1)]


@pytest.mark.parametrize(
    ("key", "image", "version"),
    [
        ("gpu_operator", "nvcr.io/nvidia/gpu-operator:v25.10.0", "v25.10.0"),
        ("volcano", "docker.io/volcanosh/vc-scheduler:v1.13.0", "v1.13.0"),
        ("kueue", "registry.k8s.io/kueue/kueue:v0.14.2", "v0.14.2"),
        ("kai", "ghcr.io/kai-scheduler/kai-scheduler/scheduler:v0.9.8", "v0.9.8"),
    ],
)
def test_a_controller_is_known_by_its_image(key, image, version):
    found = part({NODES: [], DEPLOYMENTS: [workload(image)]}, key)

    assert found == PartSeen(key=key, is_there=True, versions=(version,))


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("volcano", "scheduling.volcano.sh"),
        ("kueue", "kueue.x-k8s.io"),
        ("kai", "scheduling.run.ai"),
    ],
)
def test_or_by_the_api_that_it_serves(key, group):
    assert part({NODES: []}, key, groups=[group]) == PartSeen(key=key, is_there=True)


@pytest.mark.parametrize(
    ("kinds", "there"),
    [
        ({}, False),
        ({"/apis/scheduling.k8s.io/v1beta1": ["workloads"]}, False),
        ({"/apis/scheduling.k8s.io/v1beta1": ["podgroups", "podgroups/status"]}, True),
    ],
)
def test_pod_groups_are_known_by_the_kind_that_is_served(kinds, there):
    found = part({NODES: []}, "pod_groups", groups=["scheduling.k8s.io"], kinds=kinds)

    assert found == PartSeen(key="pod_groups", is_there=there)


def test_pod_groups_cannot_be_seen_where_the_kinds_are_closed():
    found = part({NODES: []}, "pod_groups", closed=["/apis/scheduling.k8s.io/v1beta1"])

    assert found.is_there is None


@pytest.mark.parametrize(
    ("key", "path", "obj"),
    [
        (
            "toolkit",
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"metadata": {"name": "nvidia"}, "handler": "nvidia"},
        ),
        (
            "dra_driver",
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"metadata": {"name": "gpu.nvidia.com"}},
        ),
    ],
)
def test_or_by_a_class_that_it_has_made(key, path, obj):
    other = {"metadata": {"name": "crun"}, "handler": "crun"}
    lists = {NODES: [], path: [other, obj]}

    there = [part.key for part in stack_of(Wire(lists)).parts if part.is_there]

    assert there == [key]


@pytest.mark.parametrize(
    ("said", "there", "version"),
    [
        ({"labels": {"nvidia.com/cuda.driver-version.full": "580.95.05"}}, True, ("580.95.05",)),
        (
            {
                "labels": {
                    "nvidia.com/cuda.driver.major": "535",
                    "nvidia.com/cuda.driver.minor": "104",
                    "nvidia.com/cuda.driver.rev": "12",
                }
            },
            True,
            ("535.104.12",),
        ),
        (
            {"notes": {"muster.dev/gpu-driver": '{"state":"ok","version":"570.1"}'}},
            True,
            ("570.1",),
        ),
        ({"notes": {"muster.dev/gpu-driver": '{"state":"tegra"}'}}, True, ()),
        ({"notes": {"muster.dev/gpu-driver": '{"state":"hangs","why":"x"}'}}, False, ()),
        ({"notes": {"muster.dev/gpu-driver": "torn"}}, False, ()),
        ({}, False, ()),
    ],
)
def test_the_driver_is_known_by_who_has_talked_to_it(said, there, version):
    found = part({NODES: [gpu_node(count="0", **said)]}, "driver")

    assert (found.is_there, found.versions) == (there, version)


def test_a_part_says_on_how_many_nodes_it_shows():
    lists = {NODES: [gpu_node("a"), gpu_node("b"), gpu_node("c", count="0"), node("cpu")]}

    seen = stack_of(Wire(lists))

    plugin = next(part for part in seen.parts if part.key == "device_plugin")
    assert (seen.kubernetes, seen.nodes, seen.gpu_nodes) == ("v1.36.1", 4, 3)
    assert (plugin.is_there, plugin.nodes) == (True, 2)


def test_what_may_not_be_looked_at_is_not_taken_for_missing():
    seen = stack_of(Wire({NODES: [gpu_node()]}, closed=[DAEMONS]))

    known = {part.key: part.is_there for part in seen.parts}
    assert seen.closed == (DAEMONS,)
    assert (known["device_plugin"], known["dcgm_exporter"]) == (True, None)


def test_the_simulated_cluster_is_read_without_a_write(tmp_path):
    with running_cluster("2xH100-SXM:8", frozen=True) as cluster:
        wire = connect(str(cluster.write_kubeconfig(tmp_path / "kubeconfig")), writes=False).wire
        seen = stack_of(wire)

    there = {part.key: part.nodes for part in seen.parts if part.is_there}
    assert (seen.nodes, seen.gpu_nodes, seen.closed) == (2, 2, ())
    assert there == {"driver": 2, "device_plugin": 2, "gfd": 2, "agent": 2}
