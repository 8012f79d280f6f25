"""The tree of cohorts: made, hung elsewhere, filled and taken away by operators.

Every change holds the whole tree until its commit. So of two operators the second looks at what
the first has left, and two moves that are each sound cannot close a circle together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.validators import slug_re
from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from portal.core.locks import hold_name
from tenants.access import require_operator
from tenants.models import Cohort, Quota, Tenant, User
from tenants.services.grants import amounts, lock_flavor
from tenants.services.quota import QuotaAmounts, check_amounts
from tenants.snapshots import Tree, read_tree
from tenants.snapshots.tree import mark_of
from topology.models import Cluster, ResourceFlavor
from topology.services.cycle_request import ask_for_cycle

DEEPEST = 8  # cohorts, one in the other
MOST_WEIGHT = 1000
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortWish:
    """weight: its share of what its parent has to lend, against its siblings."""

    name: str
    parent: Cohort | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a change makes of the tree. mark: stands for this change of this tree alone."""

    before: Tree
    after: Tree

    @property
    def mark(self) -> str:
        return mark_of(self.before, self.after)


def foresee(change: Callable[[], Any]) -> Outlook:
    """What `change`, a call of one service below, would come to; it is rolled back.

    Raises what it raises.
    """
    with transaction.atomic():
        outlook = _carried_out(change)
        transaction.set_rollback(True)
    return outlook


@transaction.atomic
def carry_out(change: Callable[[], Any], *, seen: str) -> Outlook:
    """Do what `foresee` has shown. seen: the mark of what was shown.

    Raises what `change` raises, and Conflict where it would come to something else by now.
    """
    outlook = _carried_out(change)
    if outlook.mark != seen:
        raise Conflict(_("Something has changed since: this is what it would come to now."))
    return outlook


@transaction.atomic
def make_cohort(wish: CohortWish, *, by: User) -> Cohort:
    """A cohort without members. Raises NotAllowed for all but operators, Refused."""
    require_operator(by)
    _hold_tree()
    cohort = Cohort()
    _write(cohort, wish)
    audit.record("make_cohort", cohort, by=by, after=_plain(cohort))
    return cohort


@transaction.atomic
def change_cohort(cohort: Cohort, wish: CohortWish, *, by: User) -> None:
    """Another name, weight or place in the tree, with all that hangs in it.

    Raises NotAllowed for all but operators; Refused, also where it would hang in itself.
    """
    require_operator(by)
    locked = _locked(cohort)
    before = _plain(locked)
    _write(locked, wish)
    if _plain(locked) != before:
        audit.record("change_cohort", locked, by=by, before=before, after=_plain(locked))
        _ask_for_cycles()


@transaction.atomic
def remove_cohort(cohort: Cohort, *, by: User) -> None:
    """Take an empty one away. Raises NotAllowed for all but operators; Refused while tenants or
    cohorts are in it, or it has GPUs of its own.
    """
    require_operator(by)
    locked = _locked(cohort)
    if locked.tenants.exists() or locked.children.exists():
        raise Refused(_("Tenants or cohorts are in it; move those first."))
    if locked.quotas.exists():
        raise Refused(_("It has GPUs or limits of its own; take those away first."))
    audit.record("remove_cohort", locked, by=by, before=_plain(locked))
    locked.delete()


@transaction.atomic
def move_tenant(tenant: Tenant, to: Cohort | None, *, by: User) -> None:
    """Have `tenant` borrow and lend in another cohort, or with nobody; jobs that run stay.

    Raises NotAllowed for all but operators; Conflict where the cohort is gone.
    """
    require_operator(by)
    _hold_tree()
    locked = Tenant.objects.select_for_update(of=("self",)).select_related("cohort")
    row = locked.get(pk=tenant.pk)
    target = None if to is None else _found(to)
    before = {"tenant": row.slug, "cohort": row.cohort.name if row.cohort else None}
    after = before | {"cohort": target.name if target else None}
    if after == before:
        return
    row.cohort = target
    row.save(update_fields=["cohort"])
    audit.record("move_tenant", row, by=by, before=before, after=after)
    _ask_for_cycles()


@transaction.atomic
def set_cohort_quota(
    asked: QuotaAmounts | None, *, cohort: Cohort, flavor: ResourceFlavor, by: User
) -> None:
    """What `cohort` has of `flavor` as a whole beside its tenants; None: nothing, and no limits.

    Raises NotAllowed for all but operators; Refused for numbers that contradict each other.
    """
    require_operator(by)
    locked = _locked(cohort)
    if asked is not None:
        check_amounts(asked)
    lock_flavor(flavor.pk)
    quota = Quota.objects.select_for_update().filter(cohort=locked, flavor=flavor).first()
    before = amounts(quota) if quota else {}
    if asked is None:
        quota = _without(quota)
    else:
        quota = quota or Quota(cohort=locked, flavor=flavor)
        quota.nominal = asked.nominal
        quota.borrowing_limit, quota.lending_limit = asked.borrowing_limit, asked.lending_limit
        quota.save()
    after = amounts(quota) if quota else {}
    if after != before:
        audit.record("set_cohort_quota", locked, by=by, before=before, after=after)
        ask_for_cycle(flavor.cluster_id)


def _without(quota: Quota | None) -> None:
    if quota is not None:
        quota.delete()


def _carried_out(change: Callable[[], Any]) -> Outlook:
    _hold_tree()
    before = read_tree()
    change()
    return Outlook(before, read_tree())


def _hold_tree() -> None:
    """Wait for whoever changes the tree, then hold it until the commit: before all other locks."""
    hold_name("tenants.cohorts")


def _locked(cohort: Cohort) -> Cohort:
    _hold_tree()
    return _found(cohort)


def _found(cohort: Cohort) -> Cohort:
    """The row as it is now; the caller holds the tree."""
    row = Cohort.objects.select_related("parent").filter(pk=cohort.pk).first()
    if row is None:
        raise Conflict(_("Cohort %(name)s is gone; look again.") % {"name": cohort.name})
    return row


def _write(cohort: Cohort, wish: CohortWish) -> None:
    """Check `wish` against the tree, which the caller holds, and store it."""
    name = wish.name.strip()
    if not slug_re.match(name) or len(name) > LONGEST_NAME:
        raise Refused(
            _("Write up to 64 letters, digits, hyphens and underscores, without spaces."),
            field="name",
        )
    if Cohort.objects.filter(name=name).exclude(pk=cohort.pk).exists():
        raise Refused(_("There is a cohort of that name."), field="name")
    if not 1 <= wish.weight <= MOST_WEIGHT:
        raise Refused(_("A weight from 1 to 1000 is needed."), field="weight")
    parent = None if wish.parent is None else _found(wish.parent)
    _check_place(cohort, parent)
    cohort.name, cohort.parent, cohort.weight = name, parent, wish.weight
    cohort.save()


def _check_place(cohort: Cohort, parent: Cohort | None) -> None:
    """No circle, and no tree that nobody can read."""
    up = dict(Cohort.objects.values_list("pk", "parent_id"))
    above: list[int | None] = []
    here = parent.pk if parent else None
    while here is not None:
        if here == cohort.pk:
            raise Refused(
                _("A cohort cannot hang in itself, nor in what hangs in it."), field="parent"
            )
        above.append(here)
        here = up[here]
    if len(above) + _height(cohort.pk, up) > DEEPEST:
        raise Refused(_("Cohorts hang at most 8 deep in each other."), field="parent")


def _height(pk: int | None, up: dict[int, int | None]) -> int:
    """Cohorts from `pk` down to the lowest that hangs in it, itself included."""
    below = [child for child, parent in up.items() if pk is not None and parent == pk]
    return 1 + max((_height(child, up) for child in below), default=0)


def _ask_for_cycles() -> None:
    """In the order of their keys, as everybody does who locks more than one."""
    for cluster_id in Cluster.objects.order_by("pk").values_list("pk", flat=True):
        ask_for_cycle(cluster_id)


def _plain(cohort: Cohort) -> dict[str, Any]:
    return {
        "name": cohort.name,
        "parent": cohort.parent.name if cohort.parent else None,
        "weight": cohort.weight,
    }
