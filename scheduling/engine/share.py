"""How much of its fair share a tenant or cohort uses, as exact fractions."""

from fractions import Fraction

import numpy as np

from scheduling.engine.quota import Books
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Snapshot

MILLI = 1000
NOTHING = Fraction(0)
NO_SHARE = 0.0, NOTHING
Path = tuple[tuple[float, Fraction], ...]


class Shares:
    """Shares of the rows of a quota tree; smaller is more deserving."""

    def __init__(self, snapshot: Snapshot, books: Books, history_milli: int) -> None:
        self._books = books
        self._weight: list[int] = [max(1, own) for own in snapshot.quotas.weight.tolist()]
        self._history_milli = history_milli
        self._history: list[int] = snapshot.tenant_history.tolist()
        self._capacity = _capacity(snapshot)
        self._past: dict[int, Fraction] = {}
        self._pairs: dict[tuple[int, int], tuple[float, Fraction]] = {}

    def of(self, row: int, extra: dict[int, int] | None = None) -> Fraction:
        """The share of `row` with `extra` parts by flavor.

        The largest over flavors of use above nominal by what its siblings lend (1 if they lend
        nothing while it borrows), plus its part of past use, divided by its weight. Without limits:
        the largest part of the capacity that it uses.
        """
        extra = extra or {}
        present = NOTHING
        for flavor in range(len(self._capacity)):
            part = self._part(row, flavor, extra.get(flavor, 0))
            if present is NOTHING or part > present:
                present = part
        if self._history_milli:
            present += self._past_of(row) * self._history_milli / MILLI
        weight = self._weight[row]
        return present if weight == 1 or present is NOTHING else present / weight

    def path(self, tenant: int, extra: dict[int, int]) -> Path:
        """Shares, with `extra` parts by flavor, from the topmost cohort down to `tenant`.

        They are compared level by level: each as a float, which is quick to compare and never in
        another order, then exactly.
        """
        rows = [tenant]
        while (parent := self._books.parent(rows[-1])) != UNKNOWN:
            rows.append(parent)
        return tuple(self._pair(self.of(row, extra)) for row in reversed(rows))

    def _pair(self, share: Fraction) -> tuple[float, Fraction]:
        """One and the same object for equal shares, which Python then finds equal at once."""
        if share is NOTHING:
            return NO_SHARE
        exactly = share.numerator, share.denominator
        if exactly not in self._pairs:
            self._pairs[exactly] = float(share), share
        return self._pairs[exactly]

    def _part(self, row: int, flavor: int, extra: int) -> Fraction:
        books = self._books
        used = books.usage[row][flavor] + extra
        if not books.is_limited(row):
            return Fraction(used, max(1, self._capacity[flavor]))
        above = used - books.guaranteed(row, flavor)
        if above <= 0:
            return NOTHING
        lent = books.lent_by_siblings(row, flavor)
        return Fraction(above, lent) if lent > 0 else Fraction(1)

    def _past_of(self, row: int) -> Fraction:
        """Own part of all siblings' decayed GPU time."""
        if row not in self._past:
            siblings = self._books.siblings(row)
            total = sum(self._total_past(own) for own in [*siblings, row])
            own = self._total_past(row)
            self._past[row] = Fraction(own, total) if total else Fraction(0)
        return self._past[row]

    def _total_past(self, row: int) -> int:
        if row < len(self._history):
            return self._history[row]
        return sum(self._total_past(child) for child in self._books.children(row))


def _capacity(snapshot: Snapshot) -> list[int]:
    """Parts of all GPUs, by flavor."""
    flavor = snapshot.node_flavor[snapshot.gpu_node]
    gpus = np.bincount(flavor, minlength=len(snapshot.flavors))
    capacity: list[int] = (gpus * PARTS_PER_GPU).tolist()
    return capacity
