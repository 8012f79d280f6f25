"""What operators look at: what waits for a decision, and what is promised when."""

from collections import Counter

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from portal.core.clock import day_in
from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import signed_in
from scheduling.web.quota.drawing import draw
from tenants.access import require_operator
from tenants.models import QuotaRequest
from tenants.reports.decisions import usual_wait_seconds
from tenants.services.quota_decisions import approve_together, foresee_together
from tenants.snapshots import read_calendars
from tenants.states import FOR_OPERATORS, RequestState
from topology.web.clusters import chosen_cluster

ON_THEIR_WAY = (RequestState.NEEDS_INFO, RequestState.COUNTERED, RequestState.SCHEDULED)
SHOWN = 50
LONGEST_KEY = 19  # digits; more name no row
LONGEST_NOTE = 4000


@require_safe
@signed_in
def approvals(request: HttpRequest) -> HttpResponse:
    """What waits for an operator, oldest first; and what is on its way and not in force yet."""
    require_operator(request.user)
    rows = QuotaRequest.objects.select_related("tenant", "flavor", "requested_by", "grant__flavor")
    waiting = rows.filter(state__in=FOR_OPERATORS).order_by("submitted_at", "pk")
    shown = {
        "count": waiting.count(),
        "waiting": waiting[:SHOWN],
        "on_their_way": rows.filter(state__in=ON_THEIR_WAY).order_by("submitted_at", "pk")[:SHOWN],
        "usual_wait": usual_wait_seconds(),
        "now": timezone.now(),
    }
    return render(request, "tenants/approvals.html", shown)


@require_POST
@signed_in
def approve_chosen(request: HttpRequest) -> HttpResponse:
    """Shows the chosen requests and whether they fit together; then approves all or none."""
    require_operator(request.user)
    chosen = _chosen(request)
    if not chosen:
        messages.error(request, _("Choose requests first."))
        return redirect("approvals")
    now = timezone.now()
    if request.POST.get("do") == "save":
        note = request.POST.get("note", "").replace("\0", "")[:LONGEST_NOTE]
        try:
            approve_together(chosen, by=request.user, at=now, note=note)
        except (Conflict, Refused) as refusal:
            return _together_page(request, chosen, refusal)
        said = ngettext("%(n)d request is approved.", "%(n)d requests are approved.", len(chosen))
        messages.success(request, said % {"n": len(chosen)})
        return redirect("approvals")
    return _together_page(request, chosen, foresee_together(chosen, by=request.user, at=now))


def _chosen(request: HttpRequest) -> list[tuple[QuotaRequest, int]]:
    """The requests that were ticked, in the order of their keys, with the versions looked at."""
    versions = {}
    for said in request.POST.getlist("request")[:SHOWN]:
        key, _colon, version = said.partition(":")
        if _is_number(key) and _is_number(version):
            versions[int(key)] = int(version)
    rows = QuotaRequest.objects.select_related("tenant", "flavor", "requested_by", "grant__flavor")
    return [(row, versions[row.pk]) for row in rows.filter(pk__in=versions).order_by("pk")]


def _is_number(said: str) -> bool:
    return said.isascii() and said.isdecimal() and len(said) < LONGEST_KEY


def _together_page(
    request: HttpRequest, chosen: list[tuple[QuotaRequest, int]], refusal: PortalError | None
) -> HttpResponse:
    sums: Counter[str] = Counter()
    for row, _version in chosen:
        sums[row.flavor.name if row.flavor else ""] += row.gpus
    shown = {
        "chosen": chosen,
        "rows": [row for row, _version in chosen],
        "sums": sorted((name, gpus) for name, gpus in sums.items() if name),
        "refusal": refusal,
        "now": timezone.now(),
    }
    status = refusal.status if refusal else 200
    return render(request, "tenants/approve_together.html", shown, status=status)


@require_safe
@signed_in
def calendar(request: HttpRequest) -> HttpResponse:
    """What of each flavor is promised, day by day: how much, and to operators also to whom."""
    cluster = chosen_cluster(request)
    flavors = list(cluster.flavors.order_by("name")) if cluster else []
    calendars = read_calendars(flavors)
    today = day_in(cluster, wall=timezone.now()) if cluster else None
    shown = {"pictures": [draw(each, today) for each in calendars.values()], "today": today}
    return render(request, "tenants/calendar.html", shown)
