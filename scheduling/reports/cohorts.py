"""The tree of cohorts for the eye, and who gains and who loses when it changes.

The numbers are the engine's: what a tenant could reach at most if nobody else used anything.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.quota import Books
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Quotas
from tenants.snapshots import Tree, TreeCohort, TreeTenant
from topology.models import ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class Has:
    """What somebody has of one flavor, in GPUs. A limit of None is no limit."""

    flavor: int
    flavor_name: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


@dataclass(frozen=True, slots=True)
class Leaf:
    tenant: TreeTenant
    has: tuple[Has, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    cohort: TreeCohort
    has: tuple[Has, ...]
    leaves: tuple[Leaf, ...]
    branches: tuple["Branch", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How a change meets one tenant, or a cohort as a whole, in one flavor; whole GPUs.

    guaranteed, borrowable: (before, after). What is guaranteed to a cohort is what it and all in
    it bring together.
    """

    name: str
    is_cohort: bool
    flavor: str
    guaranteed: tuple[int, int]
    borrowable: tuple[int, int]

    @property
    def gained(self) -> tuple[int, int]:
        """How many more (negative: fewer) are guaranteed, and may be borrowed."""
        return (
            self.guaranteed[1] - self.guaranteed[0],
            self.borrowable[1] - self.borrowable[0],
        )


def branches_of(tree: Tree) -> tuple[tuple[Branch, ...], tuple[Leaf, ...]]:
    """The roots, and the tenants that are in no cohort. One query."""
    names = dict(_flavors())
    has_cohort: dict[int, list[Has]] = defaultdict(list)
    has_tenant: dict[int, list[Has]] = defaultdict(list)
    for quota in tree.quotas:
        row = Has(
            flavor=quota.flavor,
            flavor_name=names[quota.flavor],
            nominal=quota.nominal,
            borrowing_limit=quota.borrowing_limit,
            lending_limit=quota.lending_limit,
        )
        if quota.tenant is not None:
            has_tenant[quota.tenant].append(row)
        elif quota.cohort is not None:
            has_cohort[quota.cohort].append(row)

    def leaves(cohort: int | None) -> tuple[Leaf, ...]:
        inside = (tenant for tenant in tree.tenants if tenant.cohort == cohort)
        return tuple(Leaf(each, _ordered(has_tenant[each.pk])) for each in inside)

    def below(parent: int | None) -> tuple[Branch, ...]:
        return tuple(
            Branch(each, _ordered(has_cohort[each.pk]), leaves(each.pk), below(each.pk))
            for each in tree.cohorts
            if each.parent == parent
        )

    return below(None), leaves(None)


def effects_of(before: Tree, after: Tree) -> list[Effect]:
    """Who has more or less in which flavor once the tree is `after`: tenants, then cohorts.

    One query.
    """
    flavors = _flavors()
    had, has = _reach(before, flavors), _reach(after, flavors)
    names = {(True, cohort.pk): cohort.name for cohort in after.cohorts}
    names |= {(False, tenant.pk): tenant.slug for tenant in after.tenants}
    found = []
    for (is_cohort, pk, flavor), will in has.items():
        was = had.get((is_cohort, pk, flavor), (0, 0))
        if was != will:
            found.append(
                Effect(
                    name=names[is_cohort, pk],
                    is_cohort=is_cohort,
                    flavor=flavor,
                    guaranteed=(was[0], will[0]),
                    borrowable=(was[1], will[1]),
                )
            )
    return found


def _reach(
    tree: Tree, flavors: list[tuple[int, str]]
) -> dict[tuple[bool, int, str], tuple[int, int]]:
    """(guaranteed, may borrow) by (is it a cohort, its key, the flavor); tenants first."""
    books = Books(_quotas(tree, [pk for pk, _name in flavors]))
    rows = [
        *((False, tenant.pk) for tenant in tree.tenants),
        *((True, cohort.pk) for cohort in tree.cohorts),
    ]
    reach = {}
    for row, (is_cohort, key) in enumerate(rows):
        for column, (_pk, flavor) in enumerate(flavors):
            guaranteed = books.guaranteed(row, column) // PARTS_PER_GPU
            most = books.available(row, column) // PARTS_PER_GPU
            reach[is_cohort, key, flavor] = (guaranteed, most - guaranteed)
    return reach


def _quotas(tree: Tree, flavors: list[int]) -> Quotas:
    """The engine's table of `tree`, with nothing in use."""
    first = len(tree.tenants)
    tenant_at = {tenant.pk: row for row, tenant in enumerate(tree.tenants)}
    cohort_at = {cohort.pk: first + row for row, cohort in enumerate(tree.cohorts)}
    column_of = {flavor: column for column, flavor in enumerate(flavors)}
    rows = first + len(tree.cohorts)
    shape = (rows, len(flavors))
    nominal = np.zeros(shape, dtype=np.int64)
    borrowing, lending = np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
    for quota in tree.quotas:
        at = (tenant_at.get(quota.tenant, cohort_at.get(quota.cohort)), column_of[quota.flavor])
        nominal[at] = quota.nominal * PARTS_PER_GPU
        if quota.borrowing_limit is not None:
            borrowing[at] = quota.borrowing_limit * PARTS_PER_GPU
        if quota.lending_limit is not None:
            lending[at] = quota.lending_limit * PARTS_PER_GPU
    up = [*(each.cohort for each in tree.tenants), *(each.parent for each in tree.cohorts)]
    return Quotas.of(
        tenants=first,
        cohorts=len(tree.cohorts),
        flavors=len(flavors),
        parent=[UNKNOWN if cohort is None else cohort_at[cohort] for cohort in up],
        limited=[True] * rows,
        nominal=nominal,
        borrowing_limit=borrowing,
        lending_limit=lending,
    )


def _ordered(has: list[Has]) -> tuple[Has, ...]:
    return tuple(sorted(has, key=lambda each: (each.flavor_name, each.flavor)))


def _flavors() -> list[tuple[int, str]]:
    """Keys and names; with the cluster's where there are several."""
    rows = ResourceFlavor.objects.order_by("name", "pk").values_list("pk", "name", "cluster__slug")
    found = list(rows)
    is_one = len({cluster for _pk, _name, cluster in found}) <= 1
    return [(pk, name if is_one else f"{name} ({cluster})") for pk, name, cluster in found]
