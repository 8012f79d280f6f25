"""The GPUs of this machine as NVML tells of them: the only module that calls it.

Whatever one GPU does not answer is None; a GPU that does not answer at all is lost. Calls may hang
with the driver, so that `guard.py` runs them where they can be given up.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import pynvml

_MIB: Final = 1 << 20
_MIG_NAME: Final = re.compile(r"MIG (?:\d+c\.)?(\S+)")
_GPU_PEER, _SWITCH_PEER = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
_UNCORRECTED, _AGGREGATE = 1, 1  # of ECC errors: the kind, and since the board was made
_CLOCK_SM: Final = 1


class DriverError(Exception):
    """NVML cannot be used. state: missing where there is no driver, failed otherwise."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """A MIG instance. start: in placement units, None where the driver does not say."""

    uuid: str
    profile: str
    start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBoard:
    """One GPU. pci_bus: as in sysfs, 0000:07:00.0. None for what it does not answer.

    ecc_errors: uncorrected, since it was made. remap_failed: a broken row found no spare.
    peer_lanes: NVLinks by the PCI bus of the GPU at their other end; switch_lanes: to a switch.
    """

    index: int
    uuid: str = ""
    name: str = ""
    memory_mib: int | None = None
    pci_bus: str = ""
    sm_clock_mhz: int | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    remap_failed: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    instances: tuple[SeenInstance, ...] = ()
    peer_lanes: dict[str, int] = field(default_factory=dict)
    switch_lanes: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True)
class SeenGpus:
    """All GPUs of a machine. ancestors: level of the PCIe ancestor of two, by their indexes."""

    driver: str
    boards: tuple[SeenBoard, ...]
    ancestors: dict[tuple[int, int], int]


def read_gpus() -> SeenGpus:
    """The GPUs of this machine, lost ones too. Raises DriverError."""
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded) as error:
        raise DriverError("missing", str(error)) from error
    except pynvml.NVMLError as error:
        raise DriverError("failed", str(error)) from error
    try:
        return _read()
    except pynvml.NVMLError as error:
        raise DriverError("failed", str(error)) from error
    finally:
        _ask(pynvml.nvmlShutdown)


def _read() -> SeenGpus:
    handles = {
        index: _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        for index in range(pynvml.nvmlDeviceGetCount())
    }
    boards = tuple(_board(index, handle) for index, handle in handles.items())
    levels = {
        (one, other): _ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, handles[one], handles[other])
        for one, other in combinations([own.index for own in boards if not own.lost], 2)
    }
    return SeenGpus(
        driver=str(_ask(pynvml.nvmlSystemGetDriverVersion) or ""),
        boards=boards,
        ancestors={pair: level for pair, level in levels.items() if level is not None},
    )


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers, or None if it answers with an error."""
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


def _board(index: int, handle: Any) -> SeenBoard:
    """What a GPU answers. One that dies while it is asked is lost, not a GPU that knows little."""
    uuid = handle and _ask(pynvml.nvmlDeviceGetUUID, handle)
    board = _answers(index, handle, uuid) if uuid else None
    if board is None or not _ask(pynvml.nvmlDeviceGetUUID, handle):
        return SeenBoard(index=index, lost=True)
    return board


def _answers(index: int, handle: Any, uuid: str) -> SeenBoard:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    ecc = _ask(pynvml.nvmlDeviceGetEccMode, handle)
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    peers, switches = _lanes(handle)
    return SeenBoard(
        index=index,
        uuid=uuid,
        name=_ask(pynvml.nvmlDeviceGetName, handle) or "",
        memory_mib=memory and memory.total // _MIB,
        pci_bus=_sysfs_bus(pci.busId) if pci else "",
        sm_clock_mhz=_ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, _CLOCK_SM),
        ecc=ecc and bool(ecc[0]),
        ecc_errors=_ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _AGGREGATE),
        remap_failed=rows and bool(rows[3]),
        mig=mig and bool(mig[0]),
        mig_pending=mig and bool(mig[1]),
        instances=tuple(_instances(handle)) if mig and mig[0] else (),
        peer_lanes=peers,
        switch_lanes=switches,
    )


def _sysfs_bus(bus: str) -> str:
    """NVML writes eight digits of the domain, sysfs four, and in small letters."""
    return bus.lower()[-len("0000:00:00.0") :]


def _lanes(handle: Any) -> tuple[dict[str, int], int]:
    """Active NVLinks: how many to each GPU by its PCI bus, and how many to switches."""
    peers: dict[str, int] = {}
    switches = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if _ask(pynvml.nvmlDeviceGetNvLinkState, handle, link) != 1:
            continue
        kind = _ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        remote = _ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if kind == _SWITCH_PEER:
            switches += 1
        elif kind == _GPU_PEER and remote:
            bus = _sysfs_bus(remote.busId)
            peers[bus] = peers.get(bus, 0) + 1
    return peers, switches


def _instances(handle: Any) -> Iterator[SeenInstance]:
    for number in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        mig = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        uuid = mig and _ask(pynvml.nvmlDeviceGetUUID, mig)
        if not uuid:
            continue
        named = _MIG_NAME.search(_ask(pynvml.nvmlDeviceGetName, mig) or "")
        yield SeenInstance(uuid, named[1] if named else "", _start(handle, mig))


def _start(handle: Any, mig: Any) -> int | None:
    """Where an instance starts. The driver tells it to privileged programs only."""
    number = _ask(pynvml.nvmlDeviceGetGpuInstanceId, mig)
    instance = None if number is None else _ask(pynvml.nvmlDeviceGetGpuInstanceById, handle, number)
    info = instance and _ask(pynvml.nvmlGpuInstanceGetInfo, instance)
    return int(info.placement.start) if info else None
