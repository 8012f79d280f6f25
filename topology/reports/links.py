"""How the GPUs of a node are joined, and what else the agent on it saw, as pages show it."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from topology.catalog.links import Link, LinkKind
from topology.catalog.matrix import LinkMatrix
from topology.catalog.said_links import matrix_of
from topology.models import Node

KINDS: dict[str, Promise] = {
    "NV": _("so many NVLinks, directly or through switches"),
    "PIX": _("through one PCIe switch at most"),
    "PXB": _("through several PCIe switches"),
    "PHB": _("through the PCIe host bridge of a CPU"),
    "NODE": _("between PCIe host bridges of one NUMA node"),
    "SYS": _("across the link between CPU sockets"),
}
DRIVER_STATES: dict[str, Promise] = {
    "ok": _("answers"),
    "missing": _("is not installed"),
    "failed": _("fails"),
    "hangs": _("does not answer in time"),
    "tegra": _("is that of a Jetson, without NVML"),
}
GPUDIRECT: dict[str, Promise] = {
    "yes": _("network cards reach GPU memory directly"),
    "no": _("not available"),
    "unknown": _("not known"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """links: to each GPU, None with itself. nics: to each card. nearest: cards that stand closest.

    numa: empty where it is not known.
    """

    gpu: int
    island: int
    links: tuple[Link | None, ...]
    nics: tuple[Link, ...]
    nearest: tuple[str, ...]
    numa: str


@dataclass(frozen=True, slots=True)
class LinkTable:
    """kinds: (word, meaning) of those that occur, the closest first. nics: (name, what it is)."""

    rows: tuple[Row, ...]
    nics: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, Promise], ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What the agent said last: of the driver, of GPUDirect RDMA, of GPUs that the driver lost."""

    driver: Promise | str
    version: str
    why: str
    gpudirect: Promise | str
    lost: tuple[int, ...]


def link_table(node: Node) -> LinkTable | None:
    """The links of a node's GPUs; None where no agent has told them. Reads `gpus`."""
    said = node.survey.get("links")
    if not said:
        return None
    try:
        matrix = matrix_of(said, {gpu.index: gpu.numa for gpu in node.gpus.all()})
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # of an agent that speaks another way, older or newer
    islands = matrix.island_of()
    rows = tuple(_row(matrix, at, islands[at]) for at in range(len(matrix.gpus)))
    cards = tuple((name, str(what)) for name, what in (said.get("nics") or {}).items())
    return LinkTable(rows=rows, nics=cards, kinds=_kinds(matrix))


def survey_of(node: Node) -> Survey | None:
    """What the node's agent said; None where there is none."""
    driver = node.survey.get("driver") or {}
    if not driver:
        return None
    state = str(driver.get("state", ""))
    direct = str(node.survey.get("gpudirect", ""))
    return Survey(
        driver=DRIVER_STATES.get(state, state),
        version=str(driver.get("version", "")),
        why=str(driver.get("why", "")),
        gpudirect=GPUDIRECT.get(direct, GPUDIRECT["unknown"]),
        lost=tuple(driver.get("lost") or ()),
    )


def _row(matrix: LinkMatrix, at: int, island: int) -> Row:
    return Row(
        gpu=matrix.gpus[at],
        island=island,
        links=matrix.links[at],
        nics=matrix.nic_links[at],
        nearest=matrix.nearest_nics(at),
        numa=", ".join(map(str, sorted(matrix.numa[at]))),
    )


def _kinds(matrix: LinkMatrix) -> tuple[tuple[str, Promise], ...]:
    links = [*matrix.pairs(), *(link for row in matrix.nic_links for link in row)]
    words = {"NV" if link.kind == LinkKind.NVLINK else link.kind.name for link in links}
    return tuple((word, KINDS[word]) for word in KINDS if word in words)
