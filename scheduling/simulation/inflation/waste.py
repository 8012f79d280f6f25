"""Where on a node each shape could go, and what fragmentation would be after it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.arrays import BoolArray, IntArray
from scheduling.engine.fragmentation import Shape
from scheduling.engine.worth import Ask
from scheduling.simulation.inflation.cluster import WHOLE, State, is_fraction

Mix = Sequence[tuple[Shape, int]]


@dataclass(frozen=True, slots=True)
class Tries:
    """Placements on one node, (T,) each. Of GPUs left alike only the first is tried.

    row: of the ask. gpu: of a fraction, else -1. old, new: milli of each GPU taken, before and
    after. taken: how many GPUs.
    """

    row: IntArray
    gpu: IntArray
    old: IntArray
    new: IntArray
    taken: IntArray


class Asks:
    """What arrives, and where on a node each could go. rows: by shape and memory.

    cpu, memory, gpus: (rows,) of each.
    """

    def __init__(self, asks: Sequence[Ask], models: Sequence[str]) -> None:
        self.rows = {ask: row for row, ask in enumerate(dict.fromkeys(asks))}
        shapes = [shape for shape, _ in self.rows]
        self.cpu = _column(shapes, "cpu_milli")
        self.memory = np.array([memory for _, memory in self.rows], dtype=np.int64)
        self.gpus = _column(shapes, "gpus")
        self._milli = _column(shapes, "milli")
        self._fraction = np.array([is_fraction(shape) for shape in shapes], dtype=np.bool_)
        self._may = may_use(shapes, models)

    def __len__(self) -> int:
        return len(self.rows)

    def tries(self, state: State) -> Tries:
        """All placements on a node, by row, then GPU."""
        model, cpu, memory, *left = state
        first = {milli: gpu for gpu, milli in reversed(list(enumerate(left))) if milli > 0}
        gpus = np.array(sorted(first.values()), dtype=np.int64)
        old = np.array(left, dtype=np.int64)[gpus]
        fits = (self.cpu <= cpu) & (self.memory <= memory) & self._may[model]
        parts, where = np.nonzero((fits & self._fraction)[:, None] & (old >= self._milli[:, None]))
        whole = np.flatnonzero(fits & ~self._fraction & (self.gpus <= left.count(WHOLE)))
        row = np.concatenate((parts, whole))
        before = np.concatenate((old[where], np.where(self.gpus[whole] > 0, WHOLE, 0)))
        return Tries(
            row=row,
            gpu=np.concatenate((gpus[where], np.full(len(whole), -1))),
            old=before,
            new=before - self._milli[row],
            taken=self.gpus[row],
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

    def now(self, state: State) -> int:
        """As it is."""
        model, cpu, _, *left = state
        own, small, fits = self._seen(left)
        wasted = self._sum(model, np.array([cpu]), np.array([sum(own)]), small[None], fits[None])
        return int(wasted[0])

    def after(self, state: State, tries: Tries, cpu: IntArray) -> IntArray:
        """(T,) after each try. cpu: (T,) left then."""
        own, small, fits = self._seen(state[3:])
        total = sum(own) - tries.taken * (tries.old - tries.new)
        small = small + self._small[tries.new] - self._small[tries.old]
        fits = fits + tries.taken[:, None] * (self._fits[tries.new] - self._fits[tries.old])
        return self._sum(state[0], cpu, total, small, fits)

    def _seen(self, left: Sequence[int]) -> tuple[list[int], IntArray, IntArray]:
        """GPUs with anything left; what each shape finds too small in all, and how many fit."""
        own = [milli for milli in left if milli > 0]
        return own, self._small[own].sum(axis=0), self._fits[own].sum(axis=0)

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
