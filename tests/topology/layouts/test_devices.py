"""What containers ask for under each back end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.gpus import find_model
from topology.catalog.sharing import SharingMode
from topology.layouts.devices import (
    ContainerRequest,
    DeviceWish,
    claim_spec,
    hami_request,
    is_exact,
    least_memory_factor,
    volcano_request,
)

ONE, OTHER = "GPU-2fa81118-5a5f-aa66-7660-471eed407181", "GPU-00000000-0000-0000-0000-000000000001"
SLICE = "MIG-b1028956-cfa2-0990-bf4a-5da9abb51763"


def test_hami_takes_parts_and_uuids():
    wish = DeviceWish(1, gpu_milli=300, memory_mib=8_192, uuids=(ONE,))

    assert hami_request(wish) == ContainerRequest(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "30"},
        {"nvidia.com/vgpu-mode": "hami-core", "nvidia.com/use-gpuuuid": ONE},
    )


def test_volcano_needs_the_number_of_cards_and_counts_memory_in_units():
    wish = DeviceWish(2, gpu_milli=255, memory_mib=8_193)

    assert volcano_request(wish, memory_factor=16) == ContainerRequest(
        {
            "volcano.sh/vgpu-number": "2",
            "volcano.sh/vgpu-memory": "513",
            "volcano.sh/vgpu-cores": "26",
        },
        {"volcano.sh/vgpu-mode": "hami-core"},
    )


def test_volcano_can_be_told_the_devices():
    wish = DeviceWish(2, uuids=(ONE, OTHER))

    assert volcano_request(wish).annotations["volcano.sh/vgpu-use-gpuuuid"] == f"{ONE},{OTHER}"


def test_no_memory_named_is_all_of_it():
    assert "nvidia.com/gpumem" not in hami_request(DeviceWish(1)).limits
    assert "volcano.sh/vgpu-memory" not in volcano_request(DeviceWish(1)).limits


def test_a_unit_of_memory_is_a_mebibyte_unless_said_otherwise():
    limits = volcano_request(DeviceWish(1, memory_mib=8_000)).limits

    assert limits["volcano.sh/vgpu-memory"] == "8000"


def test_a_large_node_needs_larger_units_of_memory():
    assert least_memory_factor([find_model("A100-80GB")] * 8) == 11
    assert least_memory_factor([find_model("T4")]) == 1


def test_a_claim_names_the_planned_devices():
    assert claim_spec(DeviceWish(2, uuids=(ONE, OTHER))) == {
        "devices": {
            "requests": [
                {
                    "name": "gpus",
                    "exactly": {
                        "deviceClassName": "gpu.nvidia.com",
                        "count": 2,
                        "selectors": [
                            {
                                "cel": {
                                    "expression": "device.attributes['gpu.nvidia.com'].uuid in "
                                    f"['{ONE}', '{OTHER}']"
                                }
                            }
                        ],
                    },
                }
            ]
        }
    }


def test_instances_are_of_another_class():
    (request,) = claim_spec(DeviceWish(1, uuids=(SLICE,)))["devices"]["requests"]

    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"


def test_any_devices_need_no_selector():
    (request,) = claim_spec(DeviceWish(4))["devices"]["requests"]

    assert request["exactly"] == {"deviceClassName": "gpu.nvidia.com", "count": 4}


@pytest.mark.parametrize(
    "wish",
    [
        DeviceWish(1, gpu_milli=500),
        DeviceWish(1, memory_mib=1),
        DeviceWish(2, uuids=(ONE, SLICE)),
    ],
)
def test_a_claim_is_for_whole_devices_of_one_kind(wish):
    with pytest.raises(ValueError, match="whole GPUs or for MIG instances"):
        claim_spec(wish)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"count": 0}, "no part of a GPU"),
        ({"count": 1, "gpu_milli": 0}, "no part of a GPU"),
        ({"count": 1, "gpu_milli": 1_001}, "no part of a GPU"),
        ({"count": 2, "uuids": (ONE,)}, "1 devices are planned where 2 go"),
        ({"count": 2, "uuids": (ONE, ONE)}, "1 devices are planned where 2 go"),
        ({"count": 1, "uuids": ("GPU-1'] || true",)}, "no UUID"),
        ({"count": 1, "uuids": ("GPU-1,GPU-2",)}, "no UUID"),
    ],
)
def test_wishes_that_cannot_be_are_refused(wish, why):
    with pytest.raises(ValueError, match=why):
        DeviceWish(**wish)


@given(st.integers(1, 1_000), st.integers(0, 200_000), st.integers(1, 64))
def test_nobody_gets_less_than_was_asked(milli, memory_mib, factor):
    wish = DeviceWish(1, gpu_milli=milli, memory_mib=memory_mib)
    volcano = volcano_request(wish, memory_factor=factor).limits

    assert int(hami_request(wish).limits["nvidia.com/gpucores"]) * 10 >= milli
    assert int(volcano.get("volcano.sh/vgpu-memory", 0)) * factor >= memory_mib


def test_only_some_back_ends_give_exactly_what_was_planned():
    exact = [mode for mode in SharingMode if is_exact(mode, with_claims=False)]

    assert exact == [SharingMode.HAMI, SharingMode.VOLCANO_VGPU]
    assert is_exact(SharingMode.EXCLUSIVE, with_claims=True)
