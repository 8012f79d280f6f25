"""Words for operators' pages: `{% load operators %}`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.core.models import AuditEvent
from scheduling.reports.policy_history import KnobChange
from scheduling.reports.policy_trial import TriedJob
from scheduling.reports.upcoming import WINDOW, Upcoming
from scheduling.web.operators.knobs import KNOBS

register = template.Library()
MOST_NAMED = 12
ACTIONS = {
    "plan_maintenance": gettext_lazy("Maintenance planned"),
    "change_maintenance": gettext_lazy("Maintenance changed"),
    "cancel_maintenance": gettext_lazy("Maintenance cancelled"),
    "promise_block": gettext_lazy("Block promised"),
    "change_block": gettext_lazy("Block changed"),
    "cancel_block": gettext_lazy("Block cancelled"),
}


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
    return _with_more(listed, len(jobs) - len(shown))


@register.simple_tag
def kept_title(entry: Upcoming) -> str:
    """What keeps nodes free, in one phrase."""
    if entry.kind == WINDOW:
        return entry.note or _("Maintenance")
    return _("Block %(name)s") % {"name": entry.name}


@register.simple_tag
def node_links(names: Sequence[str]) -> SafeString | str:
    """The first few nodes, as links."""
    links = ((reverse("node", args=[name]), name) for name in names[:MOST_NAMED])
    return _with_more(format_html_join(", ", '<a href="{}">{}</a>', links), len(names) - MOST_NAMED)


@register.simple_tag
def kept_action(event: AuditEvent) -> str:
    """What an operator did to a window or block."""
    return str(ACTIONS.get(event.action, event.action))


@register.simple_tag
def kept_event(event: AuditEvent) -> str:
    """What it was before, where it differs, and what it is then: times, nodes and words."""
    before, after = _kept_words(event.before), _kept_words(event.after)
    return " → ".join(words for words in dict.fromkeys((before, after)) if words)


def _kept_words(plain: Mapping[str, object]) -> str:
    if "from" not in plain:
        return ""
    nodes = plain.get("nodes") or [f"{node}={n}" for node, n in plain.get("gpus", {}).items()]
    listed = ", ".join(nodes[:MOST_NAMED]) + (" …" if len(nodes) > MOST_NAMED else "")
    said = [plain.get("name") or plain.get("note"), plain.get("tenant"), listed]
    times = f"{_local(plain['from'])} – {_local(plain['until'])}"
    return ", ".join([*(str(part) for part in said if part), times])


def _local(text: object) -> str:
    return f"{timezone.localtime(datetime.fromisoformat(str(text))):%Y-%m-%d %H:%M}"


def _with_more(listed: SafeString, more: int) -> SafeString:
    if more <= 0:
        return listed
    others = ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return format_html("{} {}", listed, others)
