"""What nodes say of how their GPUs are cut up and shared, and which pods hold them."""

import pytest

from topology.kube import parse
from topology.kube.values import LayoutSeen, PodSeen


def labelled(offers, **labels):
    """A node of NVIDIA's operator that offers `offers`, with these labels."""
    named = {
        f"nvidia.com/{name.replace('__', '-').replace('_', '.')}": value
        for name, value in labels.items()
    }
    return {"metadata": {"name": "gpu-01", "labels": named}, "status": {"allocatable": offers}}


def test_shares_are_no_gpus():
    seen = parse.node_seen(
        labelled(
            {"nvidia.com/gpu": "64"},
            gpu_product="NVIDIA-L40S-SHARED",
            gpu_replicas="16",
            gpu_sharing__strategy="time-slicing",
        )
    )

    assert (seen.gpu_count, len(seen.gpus), seen.gpu_product) == (4, 4, "NVIDIA-L40S")
    assert seen.layout == LayoutSeen(
        offers={"nvidia.com/gpu": 64}, sharing="time_slicing", replicas=16
    )


def test_slices_that_are_called_gpus_are_none():
    labels = {"gpu_product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "mig_strategy": "single"}

    seen = parse.node_seen(labelled({"nvidia.com/gpu": "56"}, **labels))

    assert (seen.gpu_count, seen.gpus) == (0, ())
    assert seen.gpu_product == "NVIDIA-A100-SXM4-40GB"


def test_a_node_says_how_far_its_change_has_come():
    made = labelled(
        {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.20gb": "0"},
        mig_config="halves",
        mig_config_state="pending",
        gpu_deploy_dcgm="paused-for-mig-change",
        device__plugin_config="plain",
    )

    assert parse.layout_seen(made) == LayoutSeen(
        mig_config="halves",
        mig_state="pending",
        plugin_config="plain",
        paused=("nvidia.com/gpu.deploy.dcgm",),
    )


@pytest.mark.parametrize(
    ("limits", "phase", "seen"),
    [
        ({"nvidia.com/mig-1g.5gb": "1"}, "Running", True),
        ({"nvidia.com/gpu": "1"}, "Pending", True),
        ({"nvidia.com/gpu": "1"}, "Succeeded", False),
        ({"cpu": "1"}, "Running", False),
    ],
)
def test_pods_that_hold_gpus_are_seen_with_their_owner(limits, phase, seen):
    owner = {"kind": "StatefulSet", "name": "web", "controller": True}
    made = {
        "metadata": {"name": "web-0", "namespace": "apps", "ownerReferences": [owner]},
        "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }
    found = PodSeen(namespace="apps", name="web-0", owner="StatefulSet web")

    assert parse.pod_seen(made) == (found if seen else None)
