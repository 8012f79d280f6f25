"""What the machine's own files tell: NUMA, network cards and what they reach, Jetson boards.

root: where the host's file system stands; another folder in a container and in tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topology.catalog.links import Link, LinkKind

_DMA_BUF_SINCE: Final = (5, 12)
_PEER_MODULES: Final = ("nvidia_peermem", "nv_peer_mem")
_SWITCH_AND_DEVICE: Final = 2  # a switch's downstream port, and the device behind it


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card for RDMA. path: its PCI path, outermost first. link: InfiniBand or Ethernet.

    rate: as the kernel writes it, 400 Gb/sec (4X NDR).
    """

    name: str
    path: tuple[str, ...]
    numa: int | None
    link: str
    rate: str


@dataclass(frozen=True, slots=True)
class Tegra:
    """A Jetson board: one GPU that shares the machine's memory."""

    name: str
    memory_mib: int | None


def numa_of(root: Path, pci_bus: str) -> int | None:
    """NUMA node of a PCI device, None where the machine has none or does not say."""
    node = _number(root / "sys/bus/pci/devices" / pci_bus / "numa_node") if pci_bus else None
    return node if node is not None and node >= 0 else None


def pci_path(root: Path, pci_bus: str) -> tuple[str, ...]:
    """The bridges down to a PCI device and the device itself; empty if it is not there."""
    device = root / "sys/bus/pci/devices" / pci_bus
    return _path_of(device) if pci_bus and device.exists() else ()


def nics(root: Path) -> tuple[Nic, ...]:
    """The network cards of the machine that RDMA can use, by name."""
    folder = root / "sys/class/infiniband"
    names = sorted(own.name for own in folder.iterdir()) if folder.is_dir() else []
    return tuple(_nic(folder / name) for name in names)


def _nic(folder: Path) -> Nic:
    port = folder / "ports/1"
    numa = _number(folder / "device/numa_node")
    return Nic(
        name=folder.name,
        path=_path_of(folder / "device"),
        numa=numa if numa is not None and numa >= 0 else None,
        link=_text(port / "link_layer"),
        rate=_text(port / "rate"),
    )


def _path_of(device: Path) -> tuple[str, ...]:
    parts = device.resolve().parts
    first = next((at for at, part in enumerate(parts) if part.startswith("pci")), len(parts))
    return parts[first:]


def pci_link(
    one: Sequence[str], other: Sequence[str], one_numa: int | None, other_numa: int | None
) -> Link:
    """How two PCI devices are joined, from their paths: what `nvidia-smi topo -m` would say."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    if not common:
        near = one_numa is not None and one_numa == other_numa
        return Link(LinkKind.NODE if near else LinkKind.SYS)
    if common == 1:
        return Link(LinkKind.PHB)
    behind = max(len(one), len(other)) - common
    return Link(LinkKind.PIX if behind <= _SWITCH_AND_DEVICE else LinkKind.PXB)


def gpudirect(root: Path, cards: Sequence[Nic]) -> bool | None:
    """Whether network cards reach GPU memory directly; None where that cannot be told.

    Either by a module for peer memory, or by DMA-BUF: the driver's open modules on a kernel from
    5.12 on.
    """
    if not cards:
        return False
    if any((root / "sys/module" / name).exists() for name in _PEER_MODULES):
        return True
    driver = _text(root / "proc/driver/nvidia/version")
    kernel = _kernel(root)
    if not driver or kernel is None:
        return None
    return "Open Kernel Module" in driver and kernel >= _DMA_BUF_SINCE


def _kernel(root: Path) -> tuple[int, int] | None:
    major, _, rest = _text(root / "proc/sys/kernel/osrelease").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def tegra(root: Path) -> Tegra | None:
    """The Jetson board that this machine is, or None. Told by the same files as NVIDIA's tools."""
    family = _text(root / "sys/devices/soc0/family").lower()
    if not (root / "etc/nv_tegra_release").exists() and not family.startswith("tegra"):
        return None
    name = _text(root / "proc/device-tree/model").strip("\0")
    return Tegra(name or "Tegra", _memory_mib(root))


def _memory_mib(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        words = line.split()
        if words and words[0] == "MemTotal:" and words[1].isdecimal():
            return int(words[1]) // 1024
    return None


def _text(path: Path) -> str:
    """What a file says, or nothing if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.removeprefix("-").isdecimal() else None
