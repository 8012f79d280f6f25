"""How fragmentation would change with each placement on a node, all of them at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fragmentation import Shape
from scheduling.simulation.inflation.cluster import WHOLE, State, is_fraction

Mix = Sequence[tuple[Shape, int]]


@dataclass(frozen=True, slots=True)
class Tries:
    """Placements on one node, (T,) each. Of GPUs left alike only the first is tried.

    row: of the shape. gpu: of a fraction, else -1. old, new: milli of each GPU taken, before and
    after. taken: how many GPUs. cpu: what would be left.
    """

    row: IntArray
    gpu: IntArray
    old: IntArray
    new: IntArray
    taken: IntArray
    cpu: IntArray


class Shapes:
    """The shapes that arrive, and where on a node each could go. rows: by shape."""

    def __init__(self, shapes: Sequence[Shape], models: Sequence[str]) -> None:
        self.rows = {shape: row for row, shape in enumerate(dict.fromkeys(shapes))}
        self._cpu = _column(self.rows, "cpu_milli")
        self._milli = _column(self.rows, "milli")
        self._gpus = _column(self.rows, "gpus")
        self._fraction = np.array([is_fraction(shape) for shape in self.rows], dtype=np.bool_)
        self._may = may_use(list(self.rows), models)

    def __len__(self) -> int:
        return len(self.rows)

    def tries(self, state: State) -> Tries:
        """All placements on a node, by row, then GPU."""
        model, cpu, *left = state
        first = {milli: gpu for gpu, milli in reversed(list(enumerate(left))) if milli > 0}
        gpus = np.array(sorted(first.values()), dtype=np.int64)
        old = np.array(left, dtype=np.int64)[gpus]
        fits = (self._cpu <= cpu) & self._may[model]
        parts, where = np.nonzero((fits & self._fraction)[:, None] & (old >= self._milli[:, None]))
        whole = np.flatnonzero(fits & ~self._fraction & (self._gpus <= left.count(WHOLE)))
        row = np.concatenate((parts, whole))
        before = np.concatenate((old[where], np.where(self._gpus[whole] > 0, WHOLE, 0)))
        return Tries(
            row=row,
            gpu=np.concatenate((gpus[where], np.full(len(whole), -1))),
            old=before,
            new=before - self._milli[row],
            taken=self._gpus[row],
            cpu=cpu - self._cpu[row],
        )


class Waste:
    """W x F of a node as it is, and after each of its tries: see `Fragmentation`."""

    def __init__(self, mix: Mix, models: Sequence[str]) -> None:
        shapes = [shape for shape, _ in mix]
        self.weight = sum(count for _, count in mix)
        self._count = np.array([count for _, count in mix], dtype=np.float64)
        self._cpu = _column(shapes, "cpu_milli")
        self._gpus = _column(shapes, "gpus")
        self._useful = may_use(shapes, models) & (self._gpus > 0)
        left, milli = np.arange(WHOLE + 1)[:, None], _column(shapes, "milli")
        self._fits = (left >= milli).astype(np.int64)
        self._small = np.where(left < milli, left, 0)

    def of(self, state: State, tries: Tries) -> tuple[int, IntArray]:
        """Now, and (T,) after each try."""
        model, cpu, *left = state
        own = [milli for milli in left if milli > 0]
        small, fits = self._small[own].sum(axis=0), self._fits[own].sum(axis=0)
        now = self._sum(model, np.array([cpu]), np.array([sum(own)]), small[None], fits[None])
        total = sum(own) - tries.taken * (tries.old - tries.new)
        small = small + self._small[tries.new] - self._small[tries.old]
        fits = fits + tries.taken[:, None] * (self._fits[tries.new] - self._fits[tries.old])
        return int(now[0]), self._sum(model, tries.cpu, total, small, fits)

    def _sum(
        self, model: int, cpu: IntArray, total: IntArray, small: IntArray, fits: IntArray
    ) -> IntArray:
        useful = self._useful[model] & (cpu[:, None] >= self._cpu) & (fits >= self._gpus)
        wasted = np.where(useful, small, total[:, None]) @ self._count
        # Sums of whole numbers far below 2**53 are exact, and floating point has the fast product.
        exact: IntArray = wasted.astype(np.int64)
        return exact


def may_use(shapes: Sequence[Shape], models: Sequence[str]) -> BoolArray:
    """(models, shapes) which model each shape may use."""
    return np.array(
        [[not shape.models or model in shape.models for shape in shapes] for model in models],
        dtype=np.bool_,
    ).reshape(len(models), len(shapes))


def _column(shapes: Iterable[Shape], name: str) -> IntArray:
    return np.array([getattr(shape, name) for shape in shapes], dtype=np.int64)
