"""The lines of a log as HTML."""

import re

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.reports.log_text import Line


def written(lines: tuple[Line, ...], *, text: str, with_times: bool) -> SafeString:
    """Each line in one of its own; `text` is marked wherever it stands, in place of colours."""
    return format_html_join("\n", "{}{}{}", (_row(line, text, with_times) for line in lines))


def _row(line: Line, text: str, with_times: bool) -> tuple[SafeString | str, ...]:  # noqa: FBT001 - given through
    at = timezone.localtime(line.at) if with_times and line.at else None
    stamp = format_html("<time>{}</time>", f"{at:%m-%d %H:%M:%S}") if at else ""
    more = format_html(' <i class="more">+{}</i>', line.more) if line.more else ""
    return stamp, _marked(line.text, text) if text else _coloured(line), more


def _coloured(line: Line) -> SafeString:
    return format_html_join(
        "",
        '<span class="{}">{}</span>',
        ((" ".join(f"ansi-{mark}" for mark in run.look), run.text) for run in line.runs),
    )


def _marked(line: str, text: str) -> SafeString:
    parts = re.split(f"({re.escape(text)})", line, flags=re.IGNORECASE)
    return format_html_join(
        "",
        "{}{}",
        (
            (plain, format_html("<mark>{}</mark>", found) if found else "")
            for plain, found in zip(parts[::2], [*parts[1::2], ""], strict=True)
        ),
    )
