"""Who may use how much: nominal quota, borrowing and lending in a tree of cohorts.

For a row c with parent p, per flavor, with `subtree` = own nominal plus what all children make
available: `local` = what is never lent, `added` = subtree - local goes into p's pool, and usage
above local is taken from it.
"""

from collections.abc import Iterator
from typing import Self

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.snapshot import UNKNOWN, Quotas


class Books:
    """Usage of the quota tree while a cycle goes on; forked for a what-if like the ledger.

    version grows with every change of usage.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._parent: list[int] = quotas.parent.tolist()
        self._limited: list[bool] = quotas.limited.tolist()
        self._borrowing: list[list[int]] = quotas.borrowing_limit.tolist()
        self.nominal: list[list[int]] = quotas.nominal.tolist()
        self._subtree: list[list[int]] = [row.copy() for row in self.nominal]
        self._local = [[0] * len(row) for row in self.nominal]
        self._children = _children(self._parent)
        self._ceilings: dict[tuple[int, int], int] = {}
        self.version = 0
        for row in self._bottom_up():
            self._sum_up(row)
        self.usage: list[list[int]] = [[0] * len(row) for row in self.nominal]
        for tenant, row in enumerate(quotas.usage.tolist()):
            for flavor, parts in enumerate(row):
                self.charge(tenant, flavor, parts)

    def fork(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.usage = [row.copy() for row in self.usage]
        return twin

    def charge(self, tenant: int, flavor: int, parts: int) -> None:
        """Add `parts`, which may be negative, to what `tenant` uses."""
        row = tenant
        self.version += 1
        while parts:
            before = self._taken(row, flavor)
            self.usage[row][flavor] += parts
            parts = self._taken(row, flavor) - before
            if not self._limited[row] or self._parent[row] == UNKNOWN:
                return
            row = self._parent[row]

    def available(self, tenant: int, flavor: int) -> int:
        """Parts that `tenant` may still use; negative where quota was lowered under its jobs."""
        if not self._limited[tenant]:
            return UNLIMITED
        return self._available(tenant, flavor)[0]

    def exhausted_at(self, tenant: int, flavor: int) -> int:
        """The row of the tree whose limit it is that leaves `tenant` no more."""
        return self._available(tenant, flavor)[1]

    def ceiling(self, tenant: int, flavor: int) -> int:
        """Parts that `tenant` could use if nobody else used any."""
        if not self._limited[tenant]:
            return UNLIMITED
        if (tenant, flavor) not in self._ceilings:
            empty = self.fork()
            empty.usage = [[0] * len(row) for row in self.usage]
            self._ceilings[tenant, flavor] = empty.available(tenant, flavor)
        return self._ceilings[tenant, flavor]

    def within_nominal(self, tenant: int, flavor: int) -> int:
        """Parts that `tenant` may still use without borrowing."""
        if not self._limited[tenant]:
            return UNLIMITED
        left: int = self.nominal[tenant][flavor] - self.usage[tenant][flavor]
        return left

    def borrows(self, tenant: int, flavor: int, parts: int = 0) -> bool:
        """Whether `tenant` with `parts` more is above its nominal quota."""
        if not self._limited[tenant] or self._parent[tenant] == UNKNOWN:
            return False
        return self.usage[tenant][flavor] + parts > self.nominal[tenant][flavor]

    def is_limited(self, row: int) -> bool:
        return self._limited[row]

    def parent(self, row: int) -> int:
        """The cohort of a row, UNKNOWN at a root."""
        return self._parent[row]

    def children(self, row: int) -> list[int]:
        return self._children[row]

    def siblings(self, row: int) -> list[int]:
        """The other rows of the same cohort, or the other roots."""
        return [
            other
            for other, parent in enumerate(self._parent)
            if parent == self._parent[row] and other != row
        ]

    def root(self, row: int) -> int:
        """The topmost row above, or the row itself."""
        while self._parent[row] != UNKNOWN:
            row = self._parent[row]
        return row

    def guaranteed(self, row: int, flavor: int) -> int:
        """What a row has without borrowing: nominal, with what the rows below it bring."""
        return self._subtree[row][flavor]

    def lent_by_siblings(self, row: int, flavor: int) -> int:
        """What the other rows of the cohort and the cohort itself put into the pool."""
        parent = self._parent[row]
        if parent == UNKNOWN:
            return 0
        own = self._subtree[row][flavor] - self._local[row][flavor]
        return self._subtree[parent][flavor] - own

    def is_above_nominal(self, tenant: int, flavor: int) -> bool:
        """Whether a tenant with limits uses more than its own nominal quota."""
        return self._limited[tenant] and self.within_nominal(tenant, flavor) < 0

    def _available(self, row: int, flavor: int) -> tuple[int, int]:
        subtree, local = self._subtree[row][flavor], self._local[row][flavor]
        used = self.usage[row][flavor]
        parent = self._parent[row]
        if parent == UNKNOWN:
            return subtree - used, row
        pool, at = self._available(parent, flavor)
        borrowing = self._borrowing[row][flavor]
        if borrowing < UNLIMITED:
            own = subtree - local + borrowing - self._taken(row, flavor)
            pool, at = (own, row) if own <= pool else (pool, at)
        return max(0, local - used) + pool, at

    def _taken(self, row: int, flavor: int) -> int:
        return max(0, self.usage[row][flavor] - self._local[row][flavor])

    def _bottom_up(self) -> Iterator[int]:
        def below(row: int) -> Iterator[int]:
            for child in self._children[row]:
                yield from below(child)
            yield row

        for row, parent in enumerate(self._parent):
            if parent == UNKNOWN:
                yield from below(row)

    def _sum_up(self, row: int) -> None:
        lending: list[int] = self._quotas.lending_limit[row].tolist()
        for flavor, limit in enumerate(lending):
            for child in self._children[row]:
                added = self._subtree[child][flavor] - self._local[child][flavor]
                self._subtree[row][flavor] += added
            if limit < UNLIMITED and self._parent[row] != UNKNOWN:
                self._local[row][flavor] = max(0, self._subtree[row][flavor] - limit)


class Tighter:
    """Two states of the books at once: only what both allow is available."""

    def __init__(self, now: Books, later: Books) -> None:
        self._now = now
        self._later = later

    def available(self, tenant: int, flavor: int) -> int:
        return min(self._now.available(tenant, flavor), self._later.available(tenant, flavor))

    def within_nominal(self, tenant: int, flavor: int) -> int:
        first = self._now.within_nominal(tenant, flavor)
        return min(first, self._later.within_nominal(tenant, flavor))

    def exhausted_at(self, tenant: int, flavor: int) -> int:
        """The row of the tree whose limit it is, in the state that allows less."""
        first = self._now.available(tenant, flavor)
        tighter = self._now if first <= self._later.available(tenant, flavor) else self._later
        return tighter.exhausted_at(tenant, flavor)


AnyBooks = Books | Tighter


def _children(parents: list[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for row, parent in enumerate(parents):
        if parent != UNKNOWN:
            children[parent].append(row)
    return children
