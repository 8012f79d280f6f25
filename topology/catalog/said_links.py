"""Links as the node agent says them, compactly, and back to the matrix that they were made of."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from topology.catalog.links import Link, LinkKind
from topology.catalog.matrix import LinkMatrix

_NVLINK: Final = re.compile(r"NV(\d{1,3})")
_MOST_GPUS: Final = 128


def read_link(text: str) -> Link:
    """A link by its word, such as NV18 or SYS. ValueError for any other."""
    found = _NVLINK.fullmatch(text)
    if found:
        return Link(LinkKind.NVLINK, int(found[1]))
    if text not in LinkKind.__members__ or text == LinkKind.NVLINK.name:
        raise ValueError(f"{text[:20]} is no link")
    return Link(LinkKind[text])


def matrix_of(said: Mapping[str, Any], numa: Mapping[int, int]) -> LinkMatrix:
    """The matrix that `said` was made of. numa: of each GPU by its index, where it is known.

    said: {"gpus": indexes, "links": for each GPU but the last its links to those that follow,
    "nics": their names, "nic_links": for each GPU its links to all of them}. ValueError when it is
    torn: rows are missing, too short, or name no links.
    """
    gpus = tuple(int(gpu) for gpu in said["gpus"])
    if len(gpus) > _MOST_GPUS:
        raise ValueError(f"{len(gpus)} GPUs are more than a node has")
    sizes = range(len(gpus) - 1, 0, -1)
    rows = _rows(said.get("links") or [], sizes)
    nics = tuple(str(name) for name in said.get("nics") or {})
    nic_rows = _rows(said.get("nic_links") or [], [len(nics)] * len(gpus)) if nics else ()
    return LinkMatrix(
        gpus=gpus,
        links=tuple(_whole_row(rows, at, len(gpus)) for at in range(len(gpus))),
        nics=nics,
        nic_links=nic_rows or ((),) * len(gpus),
        numa=tuple(_numa(numa.get(gpu, -1)) for gpu in gpus),
        cpus=("",) * len(gpus),
    )


def _rows(said: Sequence[str], sizes: Sequence[int]) -> tuple[tuple[Link, ...], ...]:
    rows = tuple(tuple(read_link(word) for word in row.split()) for row in said)
    if [len(row) for row in rows] != list(sizes):
        raise ValueError("rows of links are missing or cut off")
    return rows


def _whole_row(rows: Sequence[Sequence[Link]], at: int, count: int) -> tuple[Link | None, ...]:
    """A GPU's links to all: those of the ones before it stand in their rows."""
    before = [rows[other][at - other - 1] for other in range(at)]
    after = rows[at] if at < count - 1 else ()
    return (*before, None, *after)


def _numa(number: int) -> frozenset[int]:
    return frozenset() if number < 0 else frozenset({number})
