"""Numbers with their units, in the words of the reader's language."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86_400
MIB_PER_GIB = 1024
MILLI = 1000
ROUND_FROM = 100  # GPU-hours above this need no decimals


@register.filter
def duration(seconds: float | None) -> str:
    """A span of time by its two largest units: "2 d 5 h", "3 h 05 min", "4 min 12 s"."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole >= DAY:
        parts = {"days": whole // DAY, "hours": whole % DAY // HOUR}
        return _("%(days)d d %(hours)d h") % parts
    if whole >= HOUR:
        parts = {"hours": whole // HOUR, "minutes": whole % HOUR // MINUTE}
        return _("%(hours)d h %(minutes)02d min") % parts
    if whole >= MINUTE:
        parts = {"minutes": whole // MINUTE, "seconds": whole % MINUTE}
        return _("%(minutes)d min %(seconds)02d s") % parts
    return _("%(seconds)d s") % {"seconds": whole}


@register.filter
def gpu_hours(gpu_seconds: float | None) -> str:
    """GPU-hours from GPU-seconds: "8.25 GPU-h"."""
    if gpu_seconds is None:
        return "–"
    hours = gpu_seconds / HOUR
    places = 0 if hours >= ROUND_FROM else 2
    return _("%(hours)s GPU-h") % {"hours": number_format(hours, places)}


@register.filter
def gib(mib: int | None) -> str:
    """Memory from MiB: "80 GiB"."""
    if mib is None:
        return "–"
    return _("%(gib)s GiB") % {"gib": number_format(round(mib / MIB_PER_GIB), 0)}


@register.filter
def gib_fine(mib: int) -> str:
    """Memory from MiB to a tenth below 100 GiB: "16.6 GiB"."""
    size = mib / MIB_PER_GIB
    places = 0 if size >= ROUND_FROM else 1
    return _("%(gib)s GiB") % {"gib": number_format(round(size, places), places)}


@register.filter
def cores(milli: int | None) -> str:
    """Processor cores from thousandths: "96 cores"."""
    if milli is None:
        return "–"
    whole = round(milli / MILLI, 1)
    return _("%(cores)s cores") % {"cores": number_format(whole, 0 if whole == int(whole) else 1)}


@register.simple_tag
def instant(at: datetime | None) -> SafeString | str:
    """A moment to the minute in the reader's time zone, to the second when pointed at."""
    if at is None:
        return "–"
    local = timezone.localtime(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
        f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}",
        f"{local:%Y-%m-%d %H:%M}",
    )
