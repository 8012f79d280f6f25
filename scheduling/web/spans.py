"""Spans of time as people write them, in either language: 30 min, 14 days, 1 小时 30 分钟."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86_400, 604_800
LONGEST = 3650 * DAY
_UNITS = {
    1: ("s", "sec", "second", "seconds", "秒"),
    MINUTE: ("m", "min", "mins", "minute", "minutes", "分", "分钟"),
    HOUR: ("h", "hour", "hours", "时", "小时"),
    DAY: ("d", "day", "days", "天", "日"),
    WEEK: ("w", "week", "weeks", "周"),
}
_SECONDS = {word: seconds for seconds, words in _UNITS.items() for word in words}
_PART = re.compile(r"(\d{1,12}(?:[.,]\d{1,3})?)\s*([^\W\d_]+)\s*")


def span_seconds(text: str) -> int:
    """Whole seconds of a span as written; a 0 needs no unit. ValueError for what is none."""
    left, total = text.strip().lower(), 0.0
    if left == "0":
        return 0
    while left:
        part = _PART.match(left)
        if part is None or part[2] not in _SECONDS:
            raise ValueError(text)
        total += float(part[1].replace(",", ".")) * _SECONDS[part[2]]
        left = left[part.end() :]
    if total != int(total) or not text.strip():
        raise ValueError(text)
    return int(total)


def span_text(seconds: int) -> str:
    """A span in full, so that it can be read back: "14 days", "1 h 30 min"."""
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, left = divmod(rest, MINUTE)
    parts = (
        (days, ngettext("%(number)d day", "%(number)d days", days)),
        (hours, _("%(number)d h")),
        (minutes, _("%(number)d min")),
        (left, _("%(number)d s")),
    )
    said = [words % {"number": number} for number, words in parts if number]
    return " ".join(said) or _("%(number)d min") % {"number": 0}


class SpanField(forms.Field):
    """A span as text; cleaned it is whole seconds, None where it may be left out and is."""

    widget = forms.TextInput(attrs={"maxlength": 60})

    def prepare_value(self, value: Any) -> Any:
        return span_text(value) if isinstance(value, int) else value

    def to_python(self, value: Any) -> int | None:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            seconds = span_seconds(text)
        except ValueError as error:
            said = _("Write a time with its unit: 30 min, 12 h, 14 days.")
            raise ValidationError(said) from error
        if seconds > LONGEST:
            raise ValidationError(_("That is longer than ten years."))
        return seconds
