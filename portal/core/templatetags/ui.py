"""Small drawn things: icons, bars, and the attributes of a part that keeps itself fresh."""

import json

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def icon(name: str, suffix: str = "") -> SafeString:
    """A symbol of the sprite (frontend/icons.txt), of no meaning to a screen reader."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}{}"></use></svg>',
        static("vendor/icons.svg"),
        name,
        suffix,
    )


@register.simple_tag
def poll_attributes(poll: dict[str, str]) -> SafeString | str:
    """What makes an element fetch itself again; nothing when there is nothing to wait for."""
    if not poll["every"]:
        return ""
    return format_html(
        'data-poll hx-get="{}" hx-trigger="every {}" hx-swap="outerHTML" hx-headers="{}"',
        poll["url"],
        poll["every"],
        json.dumps({"If-None-Match": poll["tag"]}),
    )


@register.inclusion_tag("components/_bar.html")
def bar(used: int, guaranteed: int, label: str, *, ceiling: int | None = None) -> dict[str, object]:
    """A bullet bar of `used` against `guaranteed`, up to `ceiling` where that is more.

    Widths are in hundredths of the whole, which is the largest of the three.
    """
    whole = max(used, guaranteed, ceiling or 0, 1)
    inside = min(used, guaranteed)
    return {
        "label": label,
        "inside": 100 * inside / whole,
        "beyond": 100 * (used - inside) / whole,
        "guaranteed": 100 * guaranteed / whole,
        "whole": whole,
    }
