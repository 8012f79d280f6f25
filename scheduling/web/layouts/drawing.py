"""GPUs as bars, one piece for each MIG instance."""

from collections.abc import Sequence
from dataclasses import dataclass

from topology.catalog.boards import boards
from topology.catalog.gpus import GpuModel
from topology.layouts.node import GpuLayout
from topology.models import GpuMode, Node
from topology.services.layouts import board_of, setup_of_row


@dataclass(frozen=True, slots=True)
class Piece:
    """x, width, middle: hundredths of the bar."""

    name: str
    x: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Bar:
    """gpus: the numbers of those that are cut like this. pieces: none where MIG is off."""

    gpus: tuple[int, ...]
    pieces: tuple[Piece, ...]
    is_cut: bool

    @property
    def numbers(self) -> str:
        return number_words(self.gpus)

    @property
    def words(self) -> str:
        return " · ".join(piece.name for piece in self.pieces)


def draw_bars(model: GpuModel, layouts: Sequence[GpuLayout]) -> list[Bar]:
    """A bar for each way in which GPUs are cut, in the order of their numbers."""
    groups: dict[GpuLayout, list[int]] = {}
    for gpu, layout in enumerate(layouts):
        groups.setdefault(layout, []).append(gpu)
    return [
        Bar(tuple(gpus), _pieces(model, layout), layout is not None)
        for layout, gpus in groups.items()
    ]


def bars_of(node: Node) -> list[Bar]:
    """The GPUs of a node as they were last seen; none where no GPU is cut, or nobody knows it."""
    if all(gpu.mode != GpuMode.MIG for gpu in node.gpus.all()):
        return []
    model = board_of(node)
    return draw_bars(model, setup_of_row(node).layouts) if model else []


def _pieces(model: GpuModel, layout: GpuLayout) -> tuple[Piece, ...]:
    board = boards().get(model.key)
    if board is None or not layout:
        return ()
    unit = 100 / board.placement_units
    known = board.profiles
    return tuple(
        Piece(own.profile, own.start * unit, known[own.profile].width * unit)
        for own in layout
        if own.profile in known
    )


def number_words(numbers: Sequence[int]) -> str:
    """As "0-3, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
