"""How much of its fair share a tenant or cohort uses, as exact fractions."""

from fractions import Fraction

import numpy as np

from scheduling.engine.quota import Books
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Snapshot

MILLI = 1000


class Shares:
    """Shares of the rows of a quota tree; smaller is more deserving."""

    def __init__(self, snapshot: Snapshot, books: Books, history_milli: int) -> None:
        self._books = books
        self._weight: list[int] = [max(1, own) for own in snapshot.quotas.weight.tolist()]
        self._history_milli = history_milli
        self._history: list[int] = snapshot.tenant_history.tolist()
        self._capacity = _capacity(snapshot)
        self._past: dict[int, Fraction] = {}

    def of(self, row: int, extra: dict[int, int] | None = None) -> Fraction:
        """The share of `row` with `extra` parts by flavor.

        The largest over flavors of use above nominal by what its siblings lend (1 if they lend
        nothing while it borrows), plus its part of past use, divided by its weight. Without limits:
        the largest part of the capacity that it uses.
        """
        extra = extra or {}
        flavors = range(len(self._capacity))
        present = max(self._part(row, flavor, extra.get(flavor, 0)) for flavor in flavors)
        past = self._past_of(row) * self._history_milli / MILLI if self._history_milli else 0
        return (present + past) / self._weight[row]

    def path(
        self, tenant: int, extra: dict[int, int] | None = None
    ) -> tuple[tuple[float, Fraction], ...]:
        """Shares from the topmost cohort down to `tenant`: they are compared level by level.

        Each as a float, which is quick to compare and never in another order, then exactly.
        """
        rows = [tenant]
        while (parent := self._books.parent(rows[-1])) != UNKNOWN:
            rows.append(parent)
        shares = [self.of(row, extra) for row in reversed(rows)]
        return tuple((float(share), share) for share in shares)

    def _part(self, row: int, flavor: int, extra: int) -> Fraction:
        books = self._books
        used = books.usage[row][flavor] + extra
        if not books.is_limited(row):
            return Fraction(used, max(1, self._capacity[flavor]))
        above = used - books.guaranteed(row, flavor)
        if above <= 0:
            return Fraction(0)
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
