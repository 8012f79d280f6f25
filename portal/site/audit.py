"""Who changed what, for operators: every audit line with what was before and after."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from portal.core.models import AuditEvent
from portal.core.web import signed_in
from tenants.access import require_operator

PAGE_SIZE = 50
LONGEST = 120  # characters shown of one value
FILTERS = ("kind", "object", "actor", "action", "tenant")
_COLUMNS = {
    "kind": "object_kind",
    "object": "object_id",
    "actor": "actor__username",
    "action": "action",
    "tenant": "tenant_slug",
}


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class AuditRow:
    event: AuditEvent
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, event: AuditEvent) -> Self:
        return cls(event, tuple(_differences(event.before, event.after)))


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Difference(name, _short(before.get(name)), _short(after.get(name)))


def _short(value: Any) -> str:
    text = _plain(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _plain(value: Any) -> str:
    """A value as people write it, not as a program does."""
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items())
    return str(value)


@require_safe
@signed_in
def audit_page(request: HttpRequest) -> HttpResponse:
    """The newest lines that match, a page of them; `?before=` goes on to older ones."""
    require_operator(request.user)
    chosen = {name: request.GET.get(name, "").strip()[:64] for name in FILTERS}
    events = _matching(chosen, request.GET.get("before", ""))
    if without_jobs := "without_jobs" in request.GET:
        events = events.exclude(object_kind="job")
    found = list(events[: PAGE_SIZE + 1])
    shown = {
        "chosen": chosen,
        "without_jobs": without_jobs,
        "is_filtered": without_jobs or any(chosen.values()),
        "rows": [AuditRow.of(event) for event in found[:PAGE_SIZE]],
        "older": found[PAGE_SIZE - 1].pk if len(found) > PAGE_SIZE else None,
        "is_first": not request.GET.get("before"),
    }
    return render(request, "site/audit.html", shown)


def _matching(chosen: dict[str, str], before: str) -> QuerySet[AuditEvent]:
    events = AuditEvent.objects.select_related("actor", "really").order_by("-pk")
    said = {_COLUMNS[name]: value for name, value in chosen.items() if value}
    if before.isdecimal() and len(before) < 19:  # noqa: PLR2004 - more digits are no key
        events = events.filter(pk__lt=int(before))
    return events.filter(**said)
