"""Words and pictures of layouts: `{% load layouts %}`."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from scheduling.reports.layouts import in_words
from scheduling.reports.rollout_preview import NodeOutlook
from topology.layouts.preview import Reset
from topology.models import NodeChange
from topology.states import Mishap, RolloutState, Step

register = template.Library()
SECONDS = 60


@register.filter
def offers(counts: Mapping[str, int]) -> str:
    """Resource names with their counts; a dash for none."""
    return in_words(dict(counts)) or "–"


@register.filter
def minutes(seconds: int) -> int:
    """Whole minutes, rounded up."""
    return -(-seconds // SECONDS)


@register.filter
def step(value: str) -> str:
    return str(Step(value).label)


@register.filter
def rollout_state(value: str) -> str:
    return str(RolloutState(value).label)


@register.simple_tag
def reset_words(outlook: NodeOutlook) -> str:
    """What is reset on a node when it is changed."""
    if outlook.preview.reset == Reset.NODE:
        return _("all its GPUs are reset")
    if outlook.preview.reset == Reset.UNKNOWN:
        return _("nobody has said whether its GPUs are reset, or it reboots")
    return _("nothing is reset")


@register.simple_tag
def mishap(change: NodeChange) -> str:
    """Why a change failed, with what was seen."""
    if not change.mishap:
        return ""
    said, numbers = str(Mishap(change.mishap).label), change.numbers
    if change.mishap == Mishap.WRONG_COUNTS:
        more = _("planned %(planned)s, found %(found)s") % {
            "planned": in_words(numbers["planned"]) or "–",
            "found": in_words(numbers["found"]) or "–",
        }
    elif change.mishap == Mishap.TOO_LATE:
        more = _("at “%(step)s”, the MIG manager says %(state)s") % {
            "step": Step(numbers["step"]).label,
            "state": numbers["state"] or "–",
        }
    else:
        more = str(numbers.get("said") or numbers.get("state") or "")
    return f"{said}: {more}" if more else said


@register.simple_tag
def event_words(event: Any) -> str:
    """A move of a rollout, or of a node in it."""
    if event.change_id is None:
        return str(RolloutState(event.became).label)
    return f"{event.change.node.name}: {Step(event.became).label}"


@register.simple_tag
def state_mark(value: str) -> SafeString:
    """A state as the pill that pages show."""
    looks = {
        "done": "succeeded",
        "verified": "succeeded",
        "reverted": "cancelled",
        "failed": "failed",
        "paused": "suspended",
        "waiting": "queued",
    }
    is_step = value in Step.values and value not in RolloutState.values
    label = Step(value).label if is_step else RolloutState(value).label
    look = looks.get(value, "running")
    return format_html('<span class="state state-{}" data-state="{}">{}</span>', look, value, label)
