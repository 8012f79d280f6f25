"""Who may borrow from whom: cohorts, the tenants in them, and what each has, at one instant."""

import hashlib
from dataclasses import dataclass

from tenants.models import Cohort, Quota, Tenant


@dataclass(frozen=True, slots=True)
class TreeCohort:
    """parent: the key of the cohort that it hangs in; None at a root."""

    pk: int
    name: str
    parent: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class TreeTenant:
    """cohort: the key of the one that it is in; None where it borrows from nobody."""

    pk: int
    slug: str
    name: str
    cohort: int | None
    is_archived: bool


@dataclass(frozen=True, slots=True)
class TreeQuota:
    """GPUs of one flavor, of a tenant or of a cohort as a whole. A limit of None is no limit."""

    tenant: int | None
    cohort: int | None
    flavor: int
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


@dataclass(frozen=True, slots=True)
class Tree:
    """Tenants by slug, cohorts by name, quotas by key."""

    cohorts: tuple[TreeCohort, ...]
    tenants: tuple[TreeTenant, ...]
    quotas: tuple[TreeQuota, ...]

    def up(self) -> dict[int, int | None]:
        """The parent of each cohort, by key."""
        return {cohort.pk: cohort.parent for cohort in self.cohorts}


def read_tree() -> Tree:
    """The tree as it is now. Three queries."""
    cohorts = Cohort.objects.order_by("name").values_list("pk", "name", "parent_id", "weight")
    tenants = Tenant.objects.order_by("slug").values_list(
        "pk", "slug", "name", "cohort_id", "archived_at"
    )
    quotas = Quota.objects.order_by("pk").values_list(
        "tenant_id", "cohort_id", "flavor_id", "nominal", "borrowing_limit", "lending_limit"
    )
    return Tree(
        cohorts=tuple(TreeCohort(*row) for row in cohorts),
        tenants=tuple(TreeTenant(*row[:4], row[4] is not None) for row in tenants),
        quotas=tuple(TreeQuota(*row) for row in quotas),
    )


def mark_of(before: Tree, after: Tree) -> str:
    """Stands for a change from one tree to the other: another change has another mark."""
    return hashlib.sha256(repr((before, after)).encode()).hexdigest()[:24]
