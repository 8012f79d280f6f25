"""What operators tell everybody on every page."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from tenants.access import require_operator
from tenants.models import Announcement, AnnouncementLevel, User

FIRST_YEAR, LAST_YEAR = 2000, 2199  # far from where a calendar ends


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementWish:
    """text: in English. text_zh: in Chinese; where it is empty everybody reads the English one."""

    text: str
    text_zh: str = ""
    level: AnnouncementLevel = AnnouncementLevel.INFO
    from_at: datetime
    until_at: datetime


@transaction.atomic
def make_announcement(wish: AnnouncementWish, *, by: User) -> Announcement:
    """An announcement, shown in its time. Raises NotAllowed for all but operators, Refused."""
    require_operator(by)
    _check(wish)
    row = Announcement.objects.create(**_columns(wish), made_by=by)
    audit.record("make_announcement", row, by=by, after=_plain(row))
    return row


@transaction.atomic
def change_announcement(
    row: Announcement, wish: AnnouncementWish, *, by: User, seen: int | None
) -> None:
    """Have it say something else, or at other times; who dismissed it sees it again.

    seen: the version that the person looked at. Raises as make_announcement does, and Conflict
    where somebody changed it meanwhile.
    """
    require_operator(by)
    _check(wish)
    locked = _locked(row, seen)
    before = _plain(locked)
    for name, value in _columns(wish).items():
        setattr(locked, name, value)
    _save(locked, "change_announcement", before, by=by)


@transaction.atomic
def end_announcement(row: Announcement, *, by: User, at: datetime) -> None:
    """Show it no longer; one that has not begun is never shown. at: wall clock.

    Raises NotAllowed for all but operators; Refused for one that is over.
    """
    require_operator(by)
    locked = _locked(row, None)
    if locked.until_at <= at:
        raise Refused(_("It is over already."))
    if locked.from_at >= at:
        audit.record("remove_announcement", locked, by=by, before=_plain(locked))
        locked.delete()
        return
    before = _plain(locked)
    locked.until_at = at
    _save(locked, "end_announcement", before, by=by)


def _locked(row: Announcement, seen: int | None) -> Announcement:
    locked = Announcement.objects.select_for_update().filter(pk=row.pk).first()
    if locked is None or (seen is not None and locked.version != seen):
        raise Conflict(_("Somebody changed this announcement meanwhile; look again."))
    return locked


def _save(row: Announcement, action: str, before: dict[str, Any], *, by: User) -> None:
    row.version += 1
    row.save()
    audit.record(action, row, by=by, before=before, after=_plain(row))


def _check(wish: AnnouncementWish) -> None:
    if not wish.text.strip():
        raise Refused(_("Write what everybody shall know."), field="text")
    if not FIRST_YEAR <= wish.from_at.year <= wish.until_at.year <= LAST_YEAR:
        raise Refused(_("Times in the years 2000 to 2199 are needed."), field="from_at")
    if wish.until_at <= wish.from_at:
        raise Refused(_("It ends after it begins."), field="until_at")


def _columns(wish: AnnouncementWish) -> dict[str, Any]:
    return {
        "text": wish.text.strip(),
        "text_zh": wish.text_zh.strip(),
        "level": wish.level,
        "from_at": wish.from_at,
        "until_at": wish.until_at,
    }


def _plain(row: Announcement) -> dict[str, Any]:
    return {
        "text": row.text,
        "text_zh": row.text_zh,
        "level": row.level,
        "from": row.from_at.isoformat(),
        "until": row.until_at.isoformat(),
    }
