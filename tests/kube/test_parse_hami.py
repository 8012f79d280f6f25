"""What HAMi writes onto nodes and pods, as it writes it, and what is made of it."""

import json

import pytest

from topology.kube import parse
from topology.kube.hami import given_gpus, registered_gpus

ONE, OTHER = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
# JSON leaves out what is 0 or false.
AS_JSON = json.dumps(
    [
        {
            "id": OTHER,
            "index": 1,
            "count": 10,
            "devmem": 40960,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA A100-SXM4-40GB",
            "numa": 1,
            "mode": "hami-core",
        },
        {
            "id": ONE,
            "count": 10,
            "devmem": 40960,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA A100-SXM4-40GB",
            "mode": "hami-core",
            "health": True,
        },
    ]
)
AS_TEXT = (
    f"{ONE},10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true,0,hami-core:"
    f"{OTHER},10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,1,false,1,hami-core:"
)


def node(register, *, gpus="20", labels=None, **notes):
    annotations = {"hami.io/node-nvidia-register": register, **notes}
    return {
        "metadata": {"name": "gpu-01", "labels": labels or {}, "annotations": annotations},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def pod(allocated, phase="success"):
    notes = {"hami.io/vgpu-devices-allocated": allocated, "hami.io/bind-phase": phase}
    return {"metadata": {"name": "a", "annotations": notes}}


@pytest.mark.parametrize("text", [AS_JSON, AS_TEXT])
def test_gpus_are_read_from_either_way_that_they_are_written(text):
    found = parse.gpus_of(node(text))

    assert [(gpu.index, gpu.uuid, gpu.numa, gpu.healthy) for gpu in found] == [
        (0, ONE, 0, True),
        (1, OTHER, 1, False),
    ]
    assert {(gpu.mode, gpu.model, gpu.memory_mib) for gpu in found} == {
        ("hami", "NVIDIA-A100-SXM4-40GB", 40960)
    }


@pytest.mark.parametrize("text", ["", "[{", '["a"]', "nothing", "[{}]"])
def test_a_torn_text_names_no_gpu(text):
    assert registered_gpus(node(text)) == ()


def test_ten_members_to_a_gpu_are_no_ten_gpus():
    assert parse.node_seen(node(AS_TEXT)).gpu_count == 2


def test_what_the_agent_tells_holds_and_only_what_hami_gives_is_given():
    told = [
        {"index": 0, "uuid": ONE, "model": "A100-40GB", "memory_mib": 40000, "island": 3},
        {"index": 1, "uuid": "GPU-left-out", "model": "A100-40GB", "memory_mib": 40000},
    ]

    one, other = parse.gpus_of(node(AS_JSON, **{"muster.dev/gpus": json.dumps(told)}))

    assert (one.mode, one.memory_mib, one.island, one.healthy) == ("hami", 40000, 3, True)
    assert (other.mode, other.healthy) == ("exclusive", False)


def test_a_gpu_that_hami_cuts_into_slices_is_not_given_by_amounts():
    (gpu,) = parse.gpus_of(node(AS_JSON.replace("hami-core", "mig")))[1:]

    assert not gpu.healthy


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (node(AS_TEXT), ("hami",)),
        (node(AS_TEXT, gpus="2"), ("device_plugin", "hami")),
        (node(AS_TEXT, **{"volcano.sh/node-vgpu-register": "a"}), ("hami", "volcano_vgpu")),
        (
            node(
                AS_TEXT,
                labels={
                    "nvidia.com/gpu.sharing-strategy": "time-slicing",
                    "nvidia.com/gpu.replicas": "4",
                },
            ),
            ("device_plugin", "hami"),
        ),
        (node("", gpus="8"), ()),
    ],
)
def test_who_hands_out_its_gpus(seen, expected):
    assert parse.back_ends_of(seen) == expected


def test_what_a_pod_was_given_is_read_once_it_has_it():
    text = f"{ONE},NVIDIA,10240,25:{OTHER},NVIDIA,10240,25:;{ONE},NVIDIA,100,0:;"

    assert given_gpus(pod(text)) == (ONE, OTHER)
    assert given_gpus(pod(text, "allocating")) == ()
    assert given_gpus(pod("")) == ()
    assert given_gpus({"metadata": {"name": "a"}}) == ()
