"""The page of one request: where it stands, what there is to do, and how it came there."""

from datetime import date
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from portal.core.clock import day_in
from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import found
from scheduling.reports.quota_record import burn_of, record_of
from scheduling.web.quota.drawing import Picture, draw
from scheduling.web.quota.finding import request_of
from scheduling.web.quota.forms import OfferForm, as_offered
from scheduling.web.quota.steps import STEPS, Sent
from tenants.models import QuotaRequest, Role
from tenants.reports.decisions import usual_wait_seconds
from tenants.snapshots import Calendar, read_calendars
from tenants.states import FOR_OPERATORS, FOR_TENANTS, IN_FORCE, UNDECIDED, RequestState

TAKEN_BACK = IN_FORCE | {RequestState.SCHEDULED}


@found(request_of, "GET", "HEAD")
def request_page(request: HttpRequest, asked: QuotaRequest) -> HttpResponse:
    return render(request, "tenants/request.html", _shown(request, asked))


@found(request_of, "POST")
def act_on_request(request: HttpRequest, asked: QuotaRequest) -> HttpResponse:
    """One step, named by `action`; what is refused comes back with all that was written."""
    step = STEPS.get(request.POST.get("action", ""))
    if step is None:
        raise Http404
    sent = Sent.of(request, asked, timezone.now())
    try:
        thanks = step(sent)
    except (Refused, Conflict) as refusal:
        return _again(request, sent, refusal)
    messages.success(request, thanks)
    return redirect("quota-request", number=asked.pk)


def _again(request: HttpRequest, sent: Sent, refusal: PortalError) -> HttpResponse:
    """The page as it is now, with what was written and why it was not done."""
    now = request_of(request, sent.asked.pk)
    shown = _shown(request, now) | {"refusal": refusal, "written": sent.note}
    if shown["offer_form"] and "offer-gpus" in request.POST:
        shown["offer_form"] = sent.form
    return render(request, "tenants/request.html", shown, status=refusal.status)


def _shown(request: HttpRequest, asked: QuotaRequest) -> dict[str, Any]:
    wall = timezone.now()
    state = RequestState(asked.state)
    operator = request.user.is_operator
    leads = asked.tenant.memberships.filter(user=request.user, role=Role.LEAD).exists()
    today = day_in(asked.cluster, wall=wall)
    calendars = _calendars(asked) if operator or state in UNDECIDED else []
    grant = asked.grant if hasattr(asked, "grant") else None
    decides = operator and state in FOR_OPERATORS
    best = _best(calendars, asked)
    initial = as_offered(asked, best.flavor if best else None)
    return {
        "asked": asked,
        "grant": grant,
        "events": asked.events.select_related("actor").order_by("-pk"),
        "pictures": _pictures(calendars, asked, today),
        "record": record_of(asked.tenant, asked.cluster, wall=wall) if calendars else None,
        "burn": burn_of(grant, wall=wall) if grant and state in IN_FORCE else None,
        "usual_wait": usual_wait_seconds(),
        "replacement": asked.replacements.exclude(state__in=_LOST).order_by("-pk").first(),
        "offer_form": OfferForm(cluster=asked.cluster, initial=initial) if decides else None,
        "may": {
            "edit": leads and state == RequestState.DRAFT,
            "answer": leads and state == RequestState.NEEDS_INFO,
            "accept": leads and state == RequestState.COUNTERED,
            "withdraw": leads and state in FOR_OPERATORS | FOR_TENANTS,
            "change": leads and state in TAKEN_BACK,
            "hand_back": leads and state in TAKEN_BACK and bool(grant and grant.gpus),
            "revoke": operator and state in TAKEN_BACK,
        },
    }


_LOST = (RequestState.REJECTED, RequestState.DECLINED, RequestState.WITHDRAWN)


def _calendars(asked: QuotaRequest) -> list[Calendar]:
    """Of every flavor that would do; of one alone if that is asked for, or offered."""
    flavors = asked.cluster.flavors.order_by("name")
    if asked.state == RequestState.COUNTERED:
        flavors = flavors.filter(pk=asked.grant.flavor_id)
    elif asked.flavor_id:
        flavors = flavors.filter(pk=asked.flavor_id)
    elif asked.gpu_memory_mib:
        flavors = flavors.filter(gpu_memory_mib__gte=asked.gpu_memory_mib)
    return list(read_calendars(list(flavors), without=asked.replaces_id).values())


def _pictures(calendars: list[Calendar], asked: QuotaRequest, today: date) -> list[Picture]:
    """With the request, or what is offered instead, drawn in while it is undecided.

    After that it is one of the promises.
    """
    terms = asked.grant if asked.state == RequestState.COUNTERED else asked
    if asked.state not in UNDECIDED:
        terms = None
    return [draw(calendar, today, terms) for calendar in calendars]


def _best(calendars: list[Calendar], asked: QuotaRequest) -> Calendar | None:
    """The one with the most free GPUs on its tightest day; the first by name among equals."""

    def free(calendar: Calendar) -> int:
        return calendar.free_on(calendar.tightest(asked.starts_on, asked.ends_on))

    return max(calendars, key=free, default=None)
