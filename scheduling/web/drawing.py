"""Where the parts of a node's picture go, in its own units (CSS pixels at full size)."""

from collections import Counter
from dataclasses import dataclass

from scheduling.reports.occupancy import GpuUse, Holder, use_of
from topology.models import Node
from topology.reports.floor import NodePlan

CELL, GAP, ISLAND_GAP = 22, 4, 8  # 26 from cell to cell: targets of 24 do not overlap
PER_ROW = 8
MARGIN, HEAD, FOOT = 8, 26, 10


@dataclass(frozen=True, slots=True)
class Cell:
    use: GpuUse
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Bracket:
    """The line under the GPUs of one island."""

    x: int
    y: int
    width: int


@dataclass(frozen=True, slots=True)
class NodePicture:
    plan: NodePlan
    width: int
    height: int
    cells: tuple[Cell, ...]
    brackets: tuple[Bracket, ...]

    @property
    def node(self) -> Node:
        return self.plan.node

    @property
    def state(self) -> str:
        return self.plan.state

    @property
    def total(self) -> int:
        return len(self.cells)

    @property
    def free(self) -> int:
        return sum(cell.use.kind == "free" for cell in self.cells)

    @property
    def holders(self) -> list[tuple[Holder, int]]:
        """Who holds GPUs here, and how many, in the order of the first of them."""
        return list(Counter(cell.use.holder for cell in self.cells if cell.use.holder).items())

    @property
    def right(self) -> int:
        return self.width - MARGIN

    @property
    def frame_width(self) -> float:
        return self.width - 1.5

    @property
    def frame_height(self) -> float:
        return self.height - 1.5

    @property
    def name_width(self) -> int:
        return self.width * 2 // 3


def draw(plan: NodePlan, holders: dict[int, Holder]) -> NodePicture:
    """The picture of a node: its GPUs in rows of eight, islands apart and underlined."""
    cells: list[Cell] = []
    brackets: list[Bracket] = []
    x, y, width, in_row = MARGIN, HEAD, 0, 0
    gap = ISLAND_GAP if any(len(island) > 1 for island in plan.islands) else GAP
    for island in plan.islands:
        if in_row and in_row + len(island) > PER_ROW:
            x, y, in_row = MARGIN, y + CELL + FOOT, 0
        for start in range(0, len(island), PER_ROW):
            if start:
                x, y = MARGIN, y + CELL + FOOT
            row = island[start : start + PER_ROW]
            for place, gpu in enumerate(row):
                cells.append(Cell(use_of(gpu, plan.node, holders), x + place * (CELL + GAP), y))
            if len(island) > 1:
                brackets.append(Bracket(x, y + CELL + 4, _span(len(row))))
            x += _span(len(row))
            width = max(width, x)
            in_row = len(row) if start else in_row + len(row)
        x += gap
    return NodePicture(
        plan, max(width + MARGIN, 120), y + CELL + FOOT, tuple(cells), tuple(brackets)
    )


def _span(gpus: int) -> int:
    return gpus * (CELL + GAP) - GAP
