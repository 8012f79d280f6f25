"""Requests for quota: the list, and the form to write one."""

from datetime import date, datetime
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from portal.core.clock import day_in
from portal.core.errors import Conflict, Refused
from portal.core.web import Slice, blame, found, is_fragment, signed_in
from scheduling.reports.quota_record import record_of
from scheduling.web.quota.finding import request_to_edit, request_to_replace
from scheduling.web.quota.forms import FIELD_OF, RequestForm, as_changed, as_stored, proposed
from tenants.models import QuotaRequest, Role, StarterRule, Tenant
from tenants.reports.decisions import usual_wait_seconds
from tenants.services.quota_requests import change_draft, draft_request, file_request
from tenants.snapshots import Calendar, read_calendars
from tenants.states import FINAL, FOR_OPERATORS, FOR_TENANTS, IN_FORCE, PROMISED
from topology.models import Cluster
from topology.web.clusters import chosen_cluster, clusters_of

PAGE_SIZE = 25
UNPROCESSABLE = 422
# Chips of the list: what the address says, and the states that are meant.
GROUPS = {
    "yours": FOR_TENANTS,
    "operators": FOR_OPERATORS,
    "granted": PROMISED | IN_FORCE,
    "ended": FINAL,
}


@require_safe
@signed_in
def request_list(request: HttpRequest) -> HttpResponse:
    """The requests of the reader's tenants, newest first; none is left out before it has ended."""
    rows = QuotaRequest.objects.visible_to(request.user)
    tenant = request.GET.get("tenant", "").replace("\0", "")
    if tenant:
        rows = rows.filter(tenant__slug=tenant)
    counts = rows.aggregate(
        **{name: Count("pk", filter=Q(state__in=states)) for name, states in GROUPS.items()}
    )
    group = request.GET.get("group", "")
    if group in GROUPS:
        rows = rows.filter(state__in=GROUPS[group])
    page = Slice.asked_for(request, size=PAGE_SIZE, total=rows.count())
    rows = rows.select_related("tenant", "flavor", "requested_by", "grant__flavor").order_by("-pk")
    shown = {
        "rows": rows[page.start : page.start + page.size],
        "page": page,
        "group": group if group in GROUPS else "",
        "counts": counts,
        "may_ask": _may_ask(request),
    }
    return render(request, "tenants/request_list.html", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_request(request: HttpRequest) -> HttpResponse:
    """The form of a request; asked by htmx, what stands beside it."""
    old = request_to_replace(request)
    return _form_page(request, replaces=old)


@found(request_to_edit, "GET", "HEAD", "POST")
def edit_request(request: HttpRequest, draft: QuotaRequest) -> HttpResponse:
    """The form of a draft."""
    return _form_page(request, draft=draft)


def _form_page(
    request: HttpRequest, *, draft: QuotaRequest | None = None, replaces: QuotaRequest | None = None
) -> HttpResponse:
    wall = timezone.now()
    cluster = (draft or replaces).cluster if draft or replaces else chosen_cluster(request)
    if cluster is None:
        raise Http404  # there is nothing to ask for yet
    form = _form(request, cluster, draft=draft, replaces=replaces)
    if is_fragment(request):
        return render(request, "tenants/partials/_beside.html", _beside(form, cluster, wall))
    if request.method == "POST" and form.is_valid():
        stored = _store(form, request, draft, wall)
        if stored is not None:
            return redirect("quota-request", number=stored.pk)
    shown = {
        "form": form,
        "draft": draft,
        "replaces": form.replaces,
        **_beside(form, cluster, wall),
    }
    status = UNPROCESSABLE if request.method == "POST" else 200
    return render(request, "tenants/request_form.html", shown, status=status)


def _form(
    request: HttpRequest,
    cluster: Cluster,
    *,
    draft: QuotaRequest | None,
    replaces: QuotaRequest | None,
) -> RequestForm:
    """As sent; else as stored, as the grant to change is, or fresh."""
    today = day_in(cluster, wall=timezone.now())
    if draft is not None:
        initial = as_stored(draft)
    elif replaces is not None:
        initial = as_changed(replaces, today, renew="renew" in request.GET)
    else:
        initial = proposed(today, request.GET.dict())
    data = request.POST if request.method == "POST" else None
    if is_fragment(request):
        data = request.GET
    return RequestForm(
        data,
        initial=initial,
        reader=request.user,
        clusters=clusters_of(request),
        draft=draft,
        replaces=replaces,
    )


def _store(
    form: RequestForm, request: HttpRequest, draft: QuotaRequest | None, wall: datetime
) -> QuotaRequest | None:
    """The stored request, or None after what was refused has gone into the form."""
    wish, tenant = form.wish(), form.cleaned_data["tenant"]
    try:
        if request.POST.get("action") == "submit":
            stored = file_request(wish, tenant=tenant, by=request.user, at=wall, draft=draft)
            messages.success(request, _submitted(stored))
            return stored
        if draft is None:
            draft = draft_request(wish, tenant=tenant, by=request.user, at=wall)
        else:
            change_draft(draft, wish, by=request.user)
    except (Refused, Conflict) as refusal:
        blame(form, refusal, FIELD_OF)
        return None
    messages.success(request, _("%(request)s is kept as a draft.") % {"request": draft.public_id})
    return draft


def _submitted(stored: QuotaRequest) -> str:
    shown = {"request": stored.public_id}
    if stored.state in PROMISED:
        return _("%(request)s was approved at once, by the starter rule.") % shown
    return _("%(request)s was submitted. You will find every step of it here.") % shown


def _beside(form: RequestForm, cluster: Cluster, wall: datetime) -> dict[str, Any]:
    """What helps to write a request: the tenant's record, and what is free in that time."""
    today = day_in(cluster, wall=wall)
    first, last = _said(form, "starts_on", today), _said(form, "ends_on", today)
    flavors = list(cluster.flavors.order_by("name"))
    without = form.replaces.pk if form.replaces else None
    calendars = read_calendars(flavors, without=without)
    tenant = _tenant_of(form)
    return {
        "record": record_of(tenant, cluster, wall=wall) if tenant else None,
        "free": [_free(calendars[each.pk], max(first, today), last) for each in flavors],
        "first": first,
        "last": last,
        "rules": StarterRule.objects.filter(flavor__cluster=cluster).select_related("flavor"),
        "usual_wait": usual_wait_seconds(),
    }


def _free(calendar: Calendar, first: date, last: date) -> dict[str, Any]:
    day = calendar.tightest(first, max(first, last))
    return {"calendar": calendar, "gpus": max(0, calendar.free_on(day)), "day": day}


def _said(form: RequestForm, name: str, otherwise: date) -> date:
    """A day of the form, as sent or as proposed."""
    if form.is_bound:
        form.is_valid()
        said = form.cleaned_data.get(name)
    else:
        said = form.initial.get(name)
    return said or otherwise


def _tenant_of(form: RequestForm) -> Tenant | None:
    """The tenant that is chosen, or the one that a fresh form shows."""
    offered = form.fields["tenant"].queryset
    chosen = form.cleaned_data.get("tenant") if form.is_bound else None
    slug = form.initial.get("tenant")
    return chosen or offered.filter(slug=slug).first() or offered.first()


def _may_ask(request: HttpRequest) -> bool:
    return Tenant.objects.visible_to(request.user, at_least=Role.LEAD).active().exists()
