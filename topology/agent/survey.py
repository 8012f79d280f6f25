"""One look at the machine, and what the node says of it: annotations and labels.

`muster.dev/gpus` lists the GPUs as the inventory reads them, with more for people beside; one that
the driver has lost is not in it, which the inventory takes for unhealthy. `muster.dev/links` has
the links between them and to network cards. Labels have what pods may select by. Keys are short
because a node's object is sent to everybody who watches it.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from topology.agent import machine
from topology.agent.nvml import DriverError, SeenBoard, SeenGpus, read_gpus
from topology.catalog.links import Link, LinkKind
from topology.catalog.matrix import LinkMatrix

GPUS: Final = "muster.dev/gpus"
LINKS: Final = "muster.dev/links"
DRIVER: Final = "muster.dev/gpu-driver"
LABELS: Final = (
    "muster.dev/gpu-driver-state",
    "muster.dev/gpu-islands",
    "muster.dev/gpudirect",
)
_LEVELS: Final = {
    0: LinkKind.PIX,  # on one board
    10: LinkKind.PIX,
    20: LinkKind.PXB,
    30: LinkKind.PHB,
    40: LinkKind.NODE,
    50: LinkKind.SYS,
}
_YES_NO: Final = {True: "yes", False: "no", None: "unknown"}

Patch = dict[str, dict[str, str | None]]


def survey(root: Path) -> Patch:
    """Labels and annotations of this node; None for one that is to be taken away."""
    try:
        seen = read_gpus()
    except DriverError as error:
        jetson = machine.tegra(root)
        if jetson is not None:
            return _jetson(jetson)
        return without_gpus(error.state, str(error))
    return describe(seen, root)


def without_gpus(state: str, why: str) -> Patch:
    """What a node says whose driver is missing, has failed or hangs.

    What was known of its GPUs stays, so that nobody takes them for gone.
    """
    return {
        "annotations": {DRIVER: _compact({"state": state, "why": why})},
        "labels": {LABELS[0]: state},
    }


def _jetson(board: machine.Tegra) -> Patch:
    """A board without NVML: one GPU, under the name that the device plugin gives it."""
    gpu = {"index": 0, "uuid": "tegra", "model": board.name, "memory_mib": board.memory_mib}
    return {
        "annotations": {
            GPUS: _compact([gpu]),
            LINKS: None,
            DRIVER: _compact({"state": "tegra"}),
        },
        "labels": {LABELS[0]: "tegra", LABELS[1]: "1", LABELS[2]: "no"},
    }


def describe(seen: SeenGpus, root: Path) -> Patch:
    """What a node says whose driver answers."""
    cards = machine.nics(root)
    matrix = link_matrix(seen, root, cards)
    islands = dict(zip(matrix.gpus, matrix.island_of(), strict=True))
    direct = machine.gpudirect(root, cards)
    gpus = [_gpu(board, root, islands) for board in seen.boards if not board.lost]
    lost = [board.index for board in seen.boards if board.lost]
    driver = {"state": "ok", "version": seen.driver} | ({"lost": lost} if lost else {})
    return {
        "annotations": {
            GPUS: _compact(gpus),
            LINKS: _compact(_links(matrix, cards)),
            DRIVER: _compact(driver),
        },
        "labels": {
            LABELS[0]: "ok",
            LABELS[1]: str(len(set(islands.values()))),
            LABELS[2]: _YES_NO[direct],
        },
    }


def link_matrix(seen: SeenGpus, root: Path, cards: Sequence[machine.Nic]) -> LinkMatrix:
    """The links of the GPUs that answer, and of the network cards."""
    boards = [board for board in seen.boards if not board.lost]
    links = {
        pair: _link(boards[pair[0]], boards[pair[1]], seen.ancestors)
        for pair in combinations(range(len(boards)), 2)
    }
    numa = [machine.numa_of(root, board.pci_bus) for board in boards]
    paths = [machine.pci_path(root, board.pci_bus) for board in boards]
    return LinkMatrix(
        gpus=tuple(board.index for board in boards),
        links=tuple(
            tuple(links.get((min(at, to), max(at, to))) for to in range(len(boards)))
            for at in range(len(boards))
        ),
        nics=tuple(card.name for card in cards),
        nic_links=tuple(
            tuple(machine.pci_link(path, card.path, node, card.numa) for card in cards)
            for path, node in zip(paths, numa, strict=True)
        ),
        numa=tuple(frozenset() if node is None else frozenset({node}) for node in numa),
        cpus=("",) * len(boards),
    )


def _link(one: SeenBoard, other: SeenBoard, ancestors: Mapping[tuple[int, int], int]) -> Link:
    """NVLinks between two GPUs, direct or through switches; else their way over PCIe."""
    lanes = one.peer_lanes.get(other.pci_bus, 0) or min(one.switch_lanes, other.switch_lanes)
    if lanes:
        return Link(LinkKind.NVLINK, lanes)
    level = ancestors.get((one.index, other.index))
    return Link(LinkKind.SYS if level is None else _LEVELS.get(level, LinkKind.SYS))


def _gpu(board: SeenBoard, root: Path, islands: Mapping[int, int]) -> dict[str, Any]:
    """One GPU; what is not known or not worth a word is left out."""
    found = {
        "index": board.index,
        "uuid": board.uuid,
        "model": board.name,
        "memory_mib": board.memory_mib,
        "island": islands[board.index],
        "numa": machine.numa_of(root, board.pci_bus),
        "healthy": not board.remap_failed,
        "pci": board.pci_bus or None,
        "mhz": board.sm_clock_mhz,
        "ecc": board.ecc,
        "ecc_errors": board.ecc_errors or None,
        "mig": board.mig or None,
        "mig_pending": board.mig_pending if board.mig_pending != board.mig else None,
        "slices": [_slice(own.profile, own.start) for own in board.instances] or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _slice(profile: str, start: int | None) -> str:
    return profile if start is None else f"{profile}@{start}"


def _links(matrix: LinkMatrix, cards: Sequence[machine.Nic]) -> dict[str, Any]:
    """Rows of links to the GPUs that follow, and to each network card."""
    rows = [" ".join(str(link) for link in row[at + 1 :]) for at, row in enumerate(matrix.links)]
    found: dict[str, Any] = {"gpus": list(matrix.gpus), "links": rows[:-1]}
    if cards:
        found["nics"] = {card.name: f"{card.link} {card.rate}".strip() for card in cards}
        found["nic_links"] = [" ".join(map(str, row)) for row in matrix.nic_links]
    return found


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
