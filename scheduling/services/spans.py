"""What maintenance and blocks share: a time that makes sense, a mark of what was seen, an end."""

import hashlib
from datetime import datetime
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, NotFound, Refused
from scheduling.models import CapacityBlock
from tenants.models import User
from topology.models import MaintenanceWindow
from topology.services.cycle_request import ask_for_cycle

Kept = TypeVar("Kept", CapacityBlock, MaintenanceWindow)

FIRST_YEAR, LAST_YEAR = 2000, 2199  # far from where a calendar ends


def check_span(from_at: datetime, until_at: datetime) -> None:
    """Refuse with Refused, naming the field, what is no time to keep anything free in."""
    for field, at in (("from_at", from_at), ("until_at", until_at)):
        if not FIRST_YEAR <= at.year <= LAST_YEAR:
            raise Refused(_("A time in the years 2000 to 2199 is needed."), field=field)
    if until_at <= from_at:
        raise Refused(_("It ends after it begins."), field="until_at")


def mark_of(*parts: object) -> str:
    """The same for the same parts: what a form carries to say what its reader saw."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def check_seen(seen: str, mark: str) -> None:
    """Refuse with Conflict what was decided in view of something else."""
    if seen != mark:
        raise Conflict(_("Somebody else changed it in the meantime; look at it as it is now."))


def locked(kept: Kept) -> Kept:
    """The row as it is now, and nobody else's until the commit. NotFound when it is gone."""
    row = type(kept).objects.select_for_update().filter(pk=kept.pk).first()
    if row is None:
        raise NotFound(_("It is no longer planned."))
    return row


def call_off(kept: Kept, action: str, *, by: User, at: datetime, before: dict[str, Any]) -> None:
    """A locked row that has not begun goes, one under way ends now. at: cluster clock.

    action, before: of the audit line. Raises Refused when it is over.
    """
    if kept.until_at <= at:
        raise Refused(_("It is over already."))
    audit.record(action, kept, by=by, before=before)
    if kept.from_at < at:
        kept.until_at = at
        kept.save(update_fields=["until_at"])
    else:
        kept.delete()
    ask_for_cycle(kept.cluster_id)
