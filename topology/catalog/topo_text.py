"""Reads what `nvidia-smi topo -m` prints, as people paste it.

The table is separated by tabs: a header with the devices (GPU0 …, then network cards as NIC0 … or
by name) and the columns of affinity, then a row for each device. Network cards have no affinity.
Escape codes of terminals, Windows line ends, a prompt in front and tabs turned into spaces do no
harm. Nothing is guessed: a table that is cut off or contradicts itself is refused with its line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from topology.catalog.links import Link, LinkKind
from topology.catalog.matrix import LinkMatrix
from topology.catalog.wording import Translate, gettext_noop

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_GPU: Final = re.compile(r"GPU(\d+)")
_DEVICE: Final = re.compile(r"(GPU|NIC)\d+|mlx\w+")
_NVLINK: Final = re.compile(r"NV(\d+)")
_LEGEND: Final = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")
_KINDS: Final = {kind.name: Link(kind) for kind in LinkKind if kind != LinkKind.NVLINK} | {
    "SOC": Link(LinkKind.SYS)
}  # the old name of SYS
_MOST_NUMA_NODES: Final = 1024
_TABLE_COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


class Flaw(Enum):
    """Why a text is no table of links."""

    NO_HEADER = gettext_noop("there is no header with GPU0: paste all of `nvidia-smi topo -m`")
    NAMED_TWICE = gettext_noop("the header names a device twice")
    NOT_IN_HEADER = gettext_noop("{name} has a row but does not stand in the header")
    ROW_MISSING = gettext_noop("cut off: the row of {name} is missing")
    OTHER_ROW = gettext_noop("the row of {name} should stand here")
    CUT_OFF = gettext_noop("cut off: {name} has {found} of {wanted} links in its row")
    NO_LINK = gettext_noop("{cell} in the row of {name} is no kind of link")
    DIAGONAL = gettext_noop("X stands only where {name} meets itself")
    ASYMMETRIC = gettext_noop("{name} has {here} to {other}, but {other} has {there} to {name}")
    NO_NUMA = gettext_noop("{cell} is no NUMA node")
    NO_NUMA_RANGE = gettext_noop("{cell} is no range of NUMA nodes")


class TopologyTextError(ValueError):
    """The text cannot be read. line: where, counted from 1."""

    def __init__(self, line: int, flaw: Flaw, **values: object) -> None:
        self.line = line
        self.flaw = flaw
        self.values = values
        super().__init__(f"line {line}: {self.text()}")

    def text(self, translate: Translate = gettext_noop) -> str:
        """What is wrong in that line, in the language of `translate`."""
        return translate(self.flaw.value).format(**self.values)


@dataclass(frozen=True, slots=True)
class _Header:
    line: int
    devices: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """A device's row. links: None with itself. rest: the cells of affinity; None if uncertain."""

    line: int
    links: tuple[Link | None, ...]
    rest: tuple[str, ...] | None


def read_topology(text: str) -> LinkMatrix:
    """The links of a node. Raises TopologyTextError."""
    lines = [_ESCAPE.sub("", line).rstrip() for line in text.split("\n")]
    header = _header(lines)
    rows = _rows(lines, header)
    _check_symmetric(header, rows)
    gpus = [at for at, name in enumerate(header.devices) if _GPU.fullmatch(name)]
    nics = [at for at in range(len(header.devices)) if at not in gpus]
    names = _legend(lines)
    return LinkMatrix(
        gpus=tuple(int(header.devices[at].removeprefix("GPU")) for at in gpus),
        links=tuple(tuple(rows[at].links[to] for to in gpus) for at in gpus),
        nics=tuple(names.get(header.devices[at], header.devices[at]) for at in nics),
        nic_links=tuple(
            tuple(link for to in nics if (link := rows[at].links[to]) is not None) for at in gpus
        ),
        numa=tuple(_numa(rows[at], _cell(rows[at], header, "NUMA Affinity")) for at in gpus),
        cpus=tuple(_cell(rows[at], header, "CPU Affinity") for at in gpus),
    )


def _header(lines: Sequence[str]) -> _Header:
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if len(words) > 1 and _GPU.fullmatch(words[0]) and words[1] != "X":
            return _read_header(number, line)
    raise TopologyTextError(1, Flaw.NO_HEADER)


def _read_header(number: int, line: str) -> _Header:
    devices = line
    columns: list[str] = []
    for name in reversed(_TABLE_COLUMNS):
        before, found, _ = devices.partition(name)
        if found:
            devices = before
            columns.insert(0, name)
    names = devices.split()
    if len(names) != len(set(names)):
        raise TopologyTextError(number, Flaw.NAMED_TWICE)
    return _Header(number, tuple(names), tuple(columns))


def _rows(lines: Sequence[str], header: _Header) -> list[_Row]:
    """The row of each device, in the header's order."""
    rows = []
    for number, name in enumerate(header.devices, start=header.line + 1):
        line = lines[number - 1] if number <= len(lines) else ""
        words = line.split()
        if not words:
            raise TopologyTextError(number, Flaw.ROW_MISSING, name=name)
        if words[0] != name:
            raise TopologyTextError(number, Flaw.OTHER_ROW, name=name)
        rows.append(_row(number, line, header))
    after = [*lines, ""][header.line + len(rows)].split()
    if after and _DEVICE.fullmatch(after[0]):
        number = header.line + len(rows) + 1
        raise TopologyTextError(number, Flaw.NOT_IN_HEADER, name=after[0])
    return rows


def _row(number: int, line: str, header: _Header) -> _Row:
    count = len(header.devices)
    has_tabs = "\t" in line
    name, *cells = [cell.strip() for cell in line.split("\t")] if has_tabs else line.split()
    links = tuple(_link(number, name, cell) for cell in cells[:count] if cell)
    if len(links) < count:
        raise TopologyTextError(number, Flaw.CUT_OFF, name=name, found=len(links), wanted=count)
    rest = tuple(cells[count:])
    is_certain = has_tabs or len(rest) == len(header.columns)
    return _Row(number, links, rest if is_certain else None)


def _link(number: int, name: str, cell: str) -> Link | None:
    """The link that a cell says, or None for a device with itself."""
    if cell == "X":
        return None
    nvlink = _NVLINK.fullmatch(cell)
    if nvlink and int(nvlink[1]):
        return Link(LinkKind.NVLINK, int(nvlink[1]))
    if cell in _KINDS:
        return _KINDS[cell]
    raise TopologyTextError(number, Flaw.NO_LINK, cell=cell, name=name)


def _check_symmetric(header: _Header, rows: Sequence[_Row]) -> None:
    for at, row in enumerate(rows):
        for to in range(at + 1):
            here, there = row.links[to], rows[to].links[at]
            one, other = header.devices[at], header.devices[to]
            if (here is None) != (at == to):
                raise TopologyTextError(row.line, Flaw.DIAGONAL, name=one)
            if here != there:
                raise TopologyTextError(
                    row.line, Flaw.ASYMMETRIC, name=one, other=other, here=here, there=there
                )


def _cell(row: _Row, header: _Header, column: str) -> str:
    """What a row says in a column of affinity; empty if nothing, N/A or uncertain."""
    at = header.columns.index(column) if column in header.columns else -1
    if row.rest is None or not 0 <= at < len(row.rest) or row.rest[at] == "N/A":
        return ""
    return row.rest[at]


def _numa(row: _Row, cell: str) -> frozenset[int]:
    """The NUMA nodes that a cell names, as 0 or 1-2 or 0,2."""
    found: set[int] = set()
    for part in cell.split(",") if cell else ():
        first, dash, last = part.partition("-")
        words = (first, last) if dash else (first,)
        if not all(word.isascii() and word.isdecimal() for word in words):
            raise TopologyTextError(row.line, Flaw.NO_NUMA, cell=cell)
        if int(words[-1]) >= _MOST_NUMA_NODES or int(words[-1]) < int(words[0]):
            raise TopologyTextError(row.line, Flaw.NO_NUMA_RANGE, cell=cell)
        found |= set(range(int(words[0]), int(words[-1]) + 1))
    return frozenset(found)


def _legend(lines: Sequence[str]) -> dict[str, str]:
    """The names of network cards behind NIC0 and so on."""
    found = [_LEGEND.fullmatch(line) for line in lines]
    return {own[1]: own[2] for own in found if own}
