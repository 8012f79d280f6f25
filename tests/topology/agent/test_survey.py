"""What the node agent says of machines of many kinds."""

import json
from itertools import combinations

import pynvml
import pytest

from topology.agent.survey import DRIVER, GPUS, LINKS, survey
from topology.kube.parse import gpus_of
from topology.kube.values import GpuSeen

# NVLinks between the GPUs of a DGX-1 with V100.
CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def said(machine):
    """The patch of a machine, its annotations read."""
    patch = survey(machine.root)
    notes = {key: text and json.loads(text) for key, text in patch["annotations"].items()}
    return notes, patch["labels"]


def hopper(machine):
    machine.gpus(8, "NVIDIA H100 80GB HBM3", 81_559)
    for gpu in range(8):
        machine.say(*[f"gpu {gpu} link_{link} switch" for link in range(18)])
        machine.pci(f"pci0000:{gpu:02x}/0000:{gpu:02x}:01.0/0000:{16 + gpu:02x}:00.0", gpu // 4)


def test_eight_gpus_behind_switches_are_one_island(machine):
    hopper(machine)

    notes, labels = said(machine)

    assert [gpu["island"] for gpu in notes[GPUS]] == [0] * 8
    assert [gpu["numa"] for gpu in notes[GPUS]] == [0] * 4 + [1] * 4
    assert notes[LINKS]["links"][0] == " ".join(["NV18"] * 7)
    assert len(notes[LINKS]["links"]) == 7
    assert labels == {
        "muster.dev/gpu-driver-state": "ok",
        "muster.dev/gpu-islands": "1",
        "muster.dev/gpudirect": "no",
    }


def test_a_cube_mesh_has_two_quads(machine):
    machine.gpus(8, "Tesla V100-SXM2-32GB", 32_768)
    for (one, other), lanes in CUBE_MESH.items():
        machine.join(one, other, lanes)

    notes, labels = said(machine)

    assert [gpu["island"] for gpu in notes[GPUS]] == [0] * 4 + [1] * 4
    assert notes[LINKS]["links"][0] == "NV1 NV1 NV2 NV2 SYS SYS SYS"
    assert labels["muster.dev/gpu-islands"] == "2"


def test_bridged_pairs_are_islands_wherever_they_sit(machine):
    machine.gpus(4, "NVIDIA A40", 46_068)
    machine.join(0, 2, 4)
    machine.join(1, 3, 4)
    machine.say("gpu 0 ancestor_1 40", "gpu 2 ancestor_3 20")

    notes, _ = said(machine)

    assert [gpu["island"] for gpu in notes[GPUS]] == [0, 1, 0, 1]
    assert notes[LINKS]["links"] == ["NODE NV4 SYS", "SYS NV4", "PXB"]


def test_instances_of_mig_are_told_with_their_places(machine):
    machine.gpus(2)
    machine.say(
        "gpu 0 mig 1",
        "gpu 0 slice_0 4g.20gb 0",
        "gpu 0 slice_1 1c.3g.20gb 4",
        "gpu 1 mig 0",
        "gpu 1 mig_pending 1",
    )

    cut, pending = said(machine)[0][GPUS]

    assert (cut["mig"], cut["slices"]) == (True, ["4g.20gb@0", "3g.20gb@4"])
    assert ("mig" in pending, pending["mig_pending"]) == (False, True)


def test_what_a_board_says_of_itself(machine):
    machine.gpus(1)
    machine.say(
        "gpu 0 uuid GPU-1", "gpu 0 ecc 1", "gpu 0 ecc_errors 3", "gpu 0 mhz 1410", "gpu 0 bus 65"
    )

    (gpu,) = said(machine)[0][GPUS]

    assert gpu == {
        "index": 0,
        "uuid": "GPU-1",
        "model": "NVIDIA A100-SXM4-40GB",
        "memory_mib": 40_960,
        "island": 0,
        "healthy": True,
        "pci": "0000:41:00.0",
        "mhz": 1410,
        "ecc": True,
        "ecc_errors": 3,
    }


def test_the_inventory_reads_what_the_agent_says(machine):
    machine.gpus(2)
    machine.join(0, 1, 12)
    machine.say("gpu 1 remap_failed 1")
    machine.pci("pci0000:10/0000:10:01.0/0000:10:00.0", 1)

    seen = gpus_of({"metadata": {"annotations": survey(machine.root)["annotations"]}})

    board = {"model": "NVIDIA A100-SXM4-40GB", "memory_mib": 40_960, "island": 0}
    assert seen == (
        GpuSeen(index=0, uuid="GPU-0", numa=1, healthy=True, **board),
        GpuSeen(index=1, uuid="GPU-1", numa=-1, healthy=False, **board),
    )


def test_a_board_that_cannot_replace_its_rows_is_unhealthy(machine):
    machine.gpus(2)
    machine.say("gpu 1 remap_failed 1")

    assert [gpu["healthy"] for gpu in said(machine)[0][GPUS]] == [True, False]


def test_a_dead_gpu_is_named_and_the_others_go_on(machine):
    hopper(machine)
    machine.say("gpu 3 lost 1")

    notes, labels = said(machine)

    assert [gpu["index"] for gpu in notes[GPUS]] == [0, 1, 2, 4, 5, 6, 7]
    assert notes[DRIVER] == {"state": "ok", "version": "550.54.15", "lost": [3]}
    assert notes[LINKS]["gpus"] == [0, 1, 2, 4, 5, 6, 7]
    assert labels["muster.dev/gpu-driver-state"] == "ok"


def test_a_gpu_that_dies_while_it_is_asked_is_lost(machine, monkeypatch):
    machine.gpus(2)
    ask, asked = pynvml.nvmlDeviceGetMigMode, []

    def last_words(handle):
        asked.append(handle)
        if len(asked) == 2:
            machine.say("gpu 1 lost 1")
        return ask(handle)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", last_words)

    notes, _ = said(machine)

    assert ([gpu["index"] for gpu in notes[GPUS]], notes[DRIVER]["lost"]) == ([0], [1])


def test_network_cards_are_told_with_the_gpus_they_serve(machine):
    machine.gpus(3)
    machine.pci("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:10:00.0", 0)
    machine.pci("pci0000:20/0000:20:01.0/0000:11:00.0", 0)
    machine.pci("pci0000:30/0000:30:01.0/0000:12:00.0", 1)
    switch = "pci0000:10/0000:10:01.0/0000:11:00.0"
    machine.nic("mlx5_0", f"{switch}/0000:12:02.0/0000:14:00.0", 0)
    machine.nic("mlx5_1", "pci0000:20/0000:20:02.0/0000:21:00.0", 0, "Ethernet")

    links = said(machine)[0][LINKS]

    assert links["nic_links"] == ["PIX NODE", "NODE PHB", "SYS SYS"]
    assert links["nics"] == {
        "mlx5_0": "InfiniBand 400 Gb/sec (4X NDR)",
        "mlx5_1": "Ethernet 400 Gb/sec (4X NDR)",
    }


GPUDIRECT = {
    "a module for peer memory": ({"sys/module/nvidia_peermem/refcnt": "0"}, "yes"),
    "open modules on a new kernel": (
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64",
            "proc/sys/kernel/osrelease": "5.15.0-100-generic",
        },
        "yes",
    ),
    "open modules on an old kernel": (
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64",
            "proc/sys/kernel/osrelease": "5.4.0",
        },
        "no",
    ),
    "closed modules": (
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module",
            "proc/sys/kernel/osrelease": "6.8.0",
        },
        "no",
    ),
    "nothing that tells": ({}, "unknown"),
}


@pytest.mark.parametrize(("files", "answer"), GPUDIRECT.values(), ids=GPUDIRECT)
def test_whether_cards_reach_gpu_memory(machine, files, answer):
    machine.gpus(1)
    machine.nic("mlx5_0", "pci0000:20/0000:20:02.0/0000:21:00.0", 0)
    for path, text in files.items():
        machine.write(path, text)

    assert said(machine)[1]["muster.dev/gpudirect"] == answer


def test_a_driver_that_fails_is_said_to_and_nothing_is_taken_away(machine):
    machine.say("init 18")

    notes, labels = said(machine)

    assert (list(notes), notes[DRIVER]["state"]) == ([DRIVER], "failed")
    assert labels == {"muster.dev/gpu-driver-state": "failed"}


def test_a_jetson_has_one_gpu_and_no_nvml(machine):
    machine.say("init 9")
    machine.write("etc/nv_tegra_release", "# R36 (release)")
    machine.write("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    machine.write("proc/meminfo", "MemTotal:       31436800 kB\n")

    notes, labels = said(machine)

    assert notes[GPUS] == [
        {
            "index": 0,
            "uuid": "tegra",
            "model": "NVIDIA Jetson AGX Orin Developer Kit",
            "memory_mib": 30_700,
        }
    ]
    assert labels["muster.dev/gpu-driver-state"] == "tegra"


def test_a_machine_without_gpus_says_so(machine):
    machine.say("count 0")

    notes, labels = said(machine)

    assert (notes[GPUS], notes[LINKS]["links"]) == ([], [])
    assert labels["muster.dev/gpu-islands"] == "0"


@pytest.mark.parametrize("count", [8, 16])
def test_what_is_said_is_compact(machine, count):
    machine.gpus(count, "NVIDIA H100 80GB HBM3", 81_559)
    for one, other in combinations(range(count), 2):
        machine.say(f"gpu {one} ancestor_{other} 40")

    size = sum(len(text) for text in survey(machine.root)["annotations"].values() if text)

    assert size < 400 * count
