from datetime import date

from django.utils.translation import gettext as _

from portal.core.errors import Refused

FIRST, LAST = date(2000, 1, 1), date(2199, 12, 31)
"""Of any grant: far from where a calendar ends, so that days can be added to it."""


def check_days(starts_on: date, ends_on: date) -> None:
    """Refuse with Refused, naming the field, days that no grant can have."""
    shown = {"first": FIRST.isoformat(), "last": LAST.isoformat()}
    for field, day in (("starts_on", starts_on), ("ends_on", ends_on)):
        if not FIRST <= day <= LAST:
            message = _("A day from %(first)s to %(last)s is needed.") % shown
            raise Refused(message, field=field)
    if ends_on < starts_on:
        raise Refused(_("The last day is before the first."), field="ends_on")
