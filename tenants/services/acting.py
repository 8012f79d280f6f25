"""An operator in a member's name, to see what they see: for half an hour, and never unseen."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.acting import acting, refuse_while_acting
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import User

LONGEST = timedelta(minutes=30)
LONGEST_REASON = 200


@transaction.atomic
def begin_acting(person: User, reason: str, *, by: User) -> None:
    """Have it on record that `by` acts in the name of `person`, and why.

    Raises NotAllowed for all but operators; Refused for another operator, a closed account, and
    without a reason.
    """
    require_operator(by)
    refuse_while_acting()
    if not may_be_acted(person):
        raise Refused(_("Nobody acts in the name of an operator, or of a closed account."))
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise Refused(
            _("A reason is needed, and kept on record: %d characters or fewer.") % LONGEST_REASON,
            field="reason",
        )
    audit.record("begin_acting", person, by=by, after=_named(person), reason=reason.strip())


@transaction.atomic
def end_acting(person: User, *, by: User) -> None:
    """Have it on record that `by` acts in the name of `person` no longer."""
    with acting(None):  # this they do in their own name
        audit.record("end_acting", person, by=by, after=_named(person))


@transaction.atomic
def note_sight(person: User, path: str, *, by: User) -> None:
    """Have it on record that `by` looked at a page in the name of `person`."""
    with acting(by):
        audit.record("look_as", person, by=person, after={"path": path[:200]})


def may_be_acted(person: User) -> bool:
    return person.is_active and not (person.is_operator or person.is_superuser or person.is_staff)


def is_over(since: float, *, at: datetime) -> bool:
    """since: seconds of the epoch. at: wall clock."""
    return at.timestamp() - since >= LONGEST.total_seconds()


def _named(person: User) -> dict[str, str]:
    return {"user": person.username}
