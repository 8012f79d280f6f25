"""What operators look at: what waits for a decision, and what is promised when."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.clock import day_in
from portal.core.web import signed_in
from scheduling.web.quota.drawing import draw
from tenants.access import require_operator
from tenants.models import QuotaRequest
from tenants.reports.decisions import usual_wait_seconds
from tenants.snapshots import read_calendars
from tenants.states import FOR_OPERATORS, RequestState
from topology.web.clusters import chosen_cluster

ON_THEIR_WAY = (RequestState.NEEDS_INFO, RequestState.COUNTERED, RequestState.SCHEDULED)
SHOWN = 50


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
