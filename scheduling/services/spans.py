"""What maintenance and blocks share: a time that makes sense, and a mark of what was seen."""

import hashlib
from datetime import datetime

from django.utils.translation import gettext as _

from portal.core.errors import Conflict, Refused

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
