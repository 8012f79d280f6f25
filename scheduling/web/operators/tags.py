"""Words for operators' pages: `{% load operators %}`."""

from collections.abc import Mapping, Sequence

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from scheduling.reports.policy_history import KnobChange
from scheduling.reports.policy_trial import TriedJob
from scheduling.web.operators.knobs import KNOBS

register = template.Library()
MOST_NAMED = 12


@register.filter
def knob_label(name: str) -> str:
    """What people call a knob; its own name where no page sets it."""
    return str(KNOBS[name].label) if name in KNOBS else name


@register.simple_tag
def knob_before(change: KnobChange, names: Mapping[int, str]) -> str:
    """The value of a knob before a change."""
    return _says(change.knob, change.before, names)


@register.simple_tag
def knob_after(change: KnobChange, names: Mapping[int, str]) -> str:
    """The value of a knob after a change."""
    return _says(change.knob, change.after, names)


def _says(name: str, value: object, names: Mapping[int, str]) -> str:
    return KNOBS[name].says(value, names) if name in KNOBS else str(value)


@register.simple_tag
def tried_jobs(jobs: Sequence[TriedJob]) -> SafeString | str:
    """The first few jobs of a trial, as links to those that are still known."""
    shown = [
        format_html('<a href="{}">{}</a>', reverse("job", args=[job.public_id]), job.name)
        if job.public_id
        else job.name
        for job in jobs[:MOST_NAMED]
    ]
    listed = format_html_join(", ", "{}", ((job,) for job in shown))
    more = len(jobs) - len(shown)
    if not more:
        return listed
    others = ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return format_html("{} {}", listed, others)
