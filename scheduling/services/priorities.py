"""Priority classes: what jobs may ask for. Jobs keep the value that they were submitted with."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.core import audit
from portal.core.errors import NotFound, Refused
from scheduling.models import Job
from scheduling.services.spans import check_seen, mark_of
from scheduling.states import FINAL
from tenants.access import require_operator
from tenants.models import PriorityClass, User

MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWish:
    name: str
    value: int
    description: str = ""
    is_default: bool = False


@transaction.atomic
def create_priority(wish: PriorityWish, *, by: User) -> PriorityClass:
    """A new class; the default of before no longer is where the new one is.

    Raises NotAllowed for all but operators, Refused for a name or value that another has.
    """
    require_operator(by)
    _lock_all()
    _check(wish)
    if wish.is_default:
        PriorityClass.objects.filter(is_default=True).update(is_default=False)
    row = PriorityClass.objects.create(
        name=wish.name,
        value=wish.value,
        description=wish.description,
        is_default=wish.is_default,
    )
    audit.record("create_priority_class", row, by=by, after=_plain(row))
    return row


@transaction.atomic
def change_priority(
    row: PriorityClass, wish: PriorityWish, *, by: User, seen: str
) -> PriorityClass:
    """The class as wished. seen: `priority_mark` of what the operator looked at.

    Raises as create_priority does, and Refused for another value while jobs wait or run with this
    one, or for a default that would be nobody's; Conflict when it has been changed.
    """
    require_operator(by)
    row = _locked(row)
    check_seen(seen, priority_mark(row))
    _check(wish, row)
    before = _plain(row)
    if wish.is_default and not row.is_default:
        PriorityClass.objects.filter(is_default=True).update(is_default=False)
    row.name, row.value = wish.name, wish.value
    row.description, row.is_default = wish.description, wish.is_default
    row.save()
    audit.record("change_priority_class", row, by=by, before=before, after=_plain(row))
    return row


@transaction.atomic
def retire_priority(row: PriorityClass, *, by: User, at: datetime) -> None:
    """New jobs can no longer ask for it; those that have it keep it. at: wall clock.

    Raises NotAllowed, Refused for the default.
    """
    require_operator(by)
    row = _locked(row)
    if row.is_default:
        raise Refused(_("It is the default; make another the default first."))
    if row.retired_at is None:
        row.retired_at = at
        row.save(update_fields=["retired_at"])
        audit.record("retire_priority_class", row, by=by, before=_plain(row))


@transaction.atomic
def restore_priority(row: PriorityClass, *, by: User) -> None:
    """Jobs may ask for it again. Raises NotAllowed."""
    require_operator(by)
    row = _locked(row)
    if row.retired_at is not None:
        row.retired_at = None
        row.save(update_fields=["retired_at"])
        audit.record("restore_priority_class", row, by=by, after=_plain(row))


def priority_mark(row: PriorityClass) -> str:
    """What tells this class as it is from any other state of it."""
    return mark_of(row.pk, row.name, row.value, row.description, row.is_default)


def _lock_all() -> dict[int, PriorityClass]:
    """All of them: there are few, and each change looks at the others."""
    return {row.pk: row for row in PriorityClass.objects.select_for_update().order_by("pk")}


def _locked(row: PriorityClass) -> PriorityClass:
    found = _lock_all().get(row.pk)
    if found is None:
        raise NotFound(_("There is no such priority class."))
    return found


def _check(wish: PriorityWish, row: PriorityClass | None = None) -> None:
    if not -MOST <= wish.value <= MOST:
        message = _("A whole number from -%(most)d to %(most)d is needed.") % {"most": MOST}
        raise Refused(message, field="value")
    others = PriorityClass.objects.exclude(pk=row.pk if row else None)
    if others.filter(name=wish.name).exists():
        raise Refused(_("Another class has that name."), field="name")
    same = others.filter(value=wish.value).first()
    if same is not None:
        raise Refused(_("%s has that value.") % same.name, field="value")
    if row is None:
        return
    if row.is_default and not wish.is_default:
        raise Refused(_("It is the default; make another the default instead."), field="is_default")
    if wish.is_default and row.retired_at is not None:
        raise Refused(_("It is retired; bring it back first."), field="is_default")
    if row.value != wish.value:
        _check_unused(row)


def _check_unused(row: PriorityClass) -> None:
    """Its jobs would be left with a value that no class has."""
    jobs = Job.objects.filter(priority=row.value).exclude(state__in=sorted(FINAL)).count()
    if jobs:
        message = ngettext(
            "%(jobs)d job has it and would keep the old value; make a new class, and retire this.",
            "%(jobs)d jobs have it and would keep the old value; make a new class, and retire "
            "this.",
            jobs,
        )
        raise Refused(message % {"jobs": jobs}, field="value")


def _plain(row: PriorityClass) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": row.value,
        "description": row.description,
        "is_default": row.is_default,
    }
