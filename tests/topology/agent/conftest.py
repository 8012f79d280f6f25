"""An NVML of our own for the real pynvml, and machines made of files."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
COMPILERS = ("cc", "gcc", "clang")


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory):
    """The folder of the stub, built for this run."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("there is no C compiler: the node agent was not tried against NVML")
    folder = tmp_path_factory.mktemp("nvml")
    name = "libnvidia-ml.so.1"
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror", f"-Wl,-soname,{name}"]
    subprocess.run([compiler, *options, "-o", folder / name, SOURCE], check=True, timeout=60)
    return folder


class Machine:
    """A machine that a test describes: lines for the stub, files for the rest."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.root.mkdir()
        self.state = folder / "nvml.txt"
        self.state.write_text("")

    def say(self, *lines):
        with self.state.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def gpus(self, count, name="NVIDIA A100-SXM4-40GB", mib=40_960):
        self.say(f"count {count}")
        for gpu in range(count):
            self.say(f"gpu {gpu} name {name}", f"gpu {gpu} mib {mib}")

    def join(self, one, other, lanes):
        """NVLinks between two GPUs, both ways."""
        for here, there in ((one, other), (other, one)):
            taken = self.state.read_text().count(f"gpu {here} link_")
            self.say(*[f"gpu {here} link_{taken + lane} {there}" for lane in range(lanes)])

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def pci(self, path, numa):
        """A PCI device under its bridges, as sysfs has it. Returns its folder."""
        self.write(f"sys/devices/{path}/numa_node", f"{numa}\n")
        device = self.root / "sys/devices" / path
        by_bus = self.root / "sys/bus/pci/devices" / device.name
        by_bus.parent.mkdir(parents=True, exist_ok=True)
        by_bus.symlink_to(os.path.relpath(device, by_bus.parent))
        return device

    def nic(self, name, path, numa, link="InfiniBand"):
        device = self.pci(path, numa)
        folder = self.root / "sys/class/infiniband" / name
        (folder / "ports/1").mkdir(parents=True)
        (folder / "device").symlink_to(os.path.relpath(device, folder))
        (folder / "ports/1/link_layer").write_text(f"{link}\n")
        (folder / "ports/1/rate").write_text("400 Gb/sec (4X NDR)\n")


@pytest.fixture
def bare_machine(tmp_path):
    """A machine without a driver."""
    return Machine(tmp_path)


@pytest.fixture
def machine(bare_machine, nvml_folder, monkeypatch):
    """A machine whose driver is the stub.

    The library is loaded by its path first: the one that pynvml asks for by name is then the same.
    """
    ctypes.CDLL(str(nvml_folder / "libnvidia-ml.so.1"))
    monkeypatch.setenv("NVML_STUB_STATE", str(bare_machine.state))
    return bare_machine
