"""The GPU Operator as simcluster plays it: what labels ask for, and what may go wrong."""

import json
from urllib.error import HTTPError

import pytest

from simcluster.testing import running_cluster

NODE = "a100-40gb-01"
THIRDS = """version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  thirds:
  - {devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}
"""
NOTEBOOKS = """version: v1
flags: {migStrategy: mixed}
sharing:
  timeSlicing:
    renameByDefault: true
    resources: [{name: nvidia.com/gpu, replicas: 4}]
"""


@pytest.fixture
def sim():
    with running_cluster("1xA100-40GB:2,1xL40S:2", frozen=True) as sim:
        put(sim, "muster-mig-parted-config", "config.yaml", THIRDS)
        put(sim, "muster-device-plugin-config", "notebooks", NOTEBOOKS)
        yield sim


def put(sim, name, key, text):
    path = f"/api/v1/namespaces/gpu-operator/configmaps/{name}"
    there = sim.call("GET", path)
    sim.call("PUT", path, {**there, "data": {**there["data"], key: text}})


def label(sim, node=NODE, **labels):
    there = sim.call("GET", f"/api/v1/nodes/{node}")
    there["metadata"]["labels"] |= {
        f"nvidia.com/{name.replace('_', '.')}": value for name, value in labels.items()
    }
    sim.call("PUT", f"/api/v1/nodes/{node}", there)


def seen(sim, node=NODE):
    """The state that the MIG manager says, what the node offers, and how its GPUs are cut."""
    there = sim.call("GET", f"/api/v1/nodes/{node}")
    gpus = json.loads(there["metadata"]["annotations"]["muster.dev/gpus"])
    room = there["status"]["allocatable"]
    return (
        there["metadata"]["labels"].get("nvidia.com/mig.config.state"),
        {n: c for n, c in room.items() if n.startswith("nvidia.com/") and c != "0"},
        [gpu.get("slices") for gpu in gpus],
    )


CUT = ["3g.20gb@0", "3g.20gb@4"]


def test_a_label_has_the_gpus_of_a_node_cut(sim):
    label(sim, mig_config="thirds")

    during = seen(sim)
    sim.step(60)

    assert during == ("pending", {}, [None, None])
    assert seen(sim) == ("success", {"nvidia.com/mig-3g.20gb": "4"}, [CUT, CUT])


def test_a_label_has_the_gpus_of_a_node_shared(sim):
    there = sim.call("GET", "/api/v1/nodes/l40s-01")
    there["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "notebooks"
    sim.call("PUT", "/api/v1/nodes/l40s-01", there)
    sim.step(60)

    assert seen(sim, "l40s-01") == (None, {"nvidia.com/gpu.shared": "8"}, [None, None])


def test_a_configuration_that_is_not_there_fails_at_once(sim):
    label(sim, mig_config="thrids")

    assert seen(sim) == ("failed", {"nvidia.com/gpu": "2"}, [None, None])


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("failed", ("failed", {"nvidia.com/gpu": "2"}, [None, None])),
        ("stuck", ("pending", {}, [None, None])),
        ("fallback", ("success", {"nvidia.com/gpu": "2"}, [None, None])),
        ("short", ("success", {"nvidia.com/mig-3g.20gb": "2"}, [CUT[1:], CUT[1:]])),
        ("reboot-needed", ("failed", {"nvidia.com/gpu": "2"}, [None, None])),
        ("reboot", ("success", {"nvidia.com/mig-3g.20gb": "4"}, [CUT, CUT])),
        ("plugin-stuck", ("success", {}, [CUT, CUT])),
    ],
)
def test_a_change_fails_as_it_was_asked_to(sim, how, what):
    sim.fault("gpu-layout", node=NODE, how=how)
    label(sim, mig_config="thirds")
    sim.step(600)

    assert seen(sim) == what


def test_only_the_next_change_fails(sim):
    sim.fault("gpu-layout", node=NODE, how="plugin-stuck")
    label(sim, mig_config="thirds")
    sim.step(600)
    label(sim, mig_config="all-disabled")
    sim.step(60)

    assert seen(sim) == ("success", {"nvidia.com/gpu": "2"}, [None, None])
    assert sim.call("GET", "/simcluster/faults")["gpu_layouts"] == {}


def test_a_gpu_in_use_makes_a_change_fail(sim):
    limits = {"nvidia.com/gpu": "1"}
    pod = {
        "metadata": {"name": "work", "annotations": {"simcluster.muster.dev/run-seconds": "9000"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]},
    }
    sim.call("POST", "/api/v1/namespaces/default/pods", pod)
    sim.step(5)
    label(sim, mig_config="thirds")
    sim.step(60)

    assert seen(sim) == ("failed", {"nvidia.com/gpu": "2"}, [None, None])


def test_a_way_to_fail_that_is_not_known_is_refused(sim):
    with pytest.raises(HTTPError, match="400"):
        sim.fault("gpu-layout", node=NODE, how="melts")
