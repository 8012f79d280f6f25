"""What is kept free when: the list for everybody, and forms for operators."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core import clock
from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import blame, signed_in
from scheduling.models import CapacityBlock
from scheduling.reports.upcoming import BLOCK, WINDOW, changes_of, touched_by, upcoming_in
from scheduling.services.blocks import block_mark, cancel_block, change_block, promise_block
from scheduling.services.maintenance import (
    cancel_maintenance,
    change_maintenance,
    plan_maintenance,
    window_mark,
)
from scheduling.web.operators.keeping import (
    BlockForm,
    KeepingForm,
    WindowForm,
    as_block,
    as_window,
)
from scheduling.web.operators.sent import cluster_sent
from scheduling.web.operators.timeline import by_day, draw_timeline
from tenants.access import require_operator
from topology.models import Cluster, MaintenanceWindow
from topology.web.clusters import chosen_cluster

UNPROCESSABLE = 422
LARGEST = 2**63 - 1  # of a key


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the one and the other kind of keeping nodes free is read and written."""

    rows: Any
    form: type[KeepingForm]
    shown: Callable[[Any], dict[str, Any]]
    mark: Callable[[Any], str]
    plan: Callable[..., Any]
    change: Callable[..., Any]
    cancel: Callable[..., None]
    planned: Promise
    changed: Promise
    cancelled: Promise


KINDS = {
    WINDOW: Kind(
        rows=MaintenanceWindow.objects,
        form=WindowForm,
        shown=as_window,
        mark=window_mark,
        plan=plan_maintenance,
        change=change_maintenance,
        cancel=cancel_maintenance,
        planned=gettext_lazy("The maintenance is planned."),
        changed=gettext_lazy("The maintenance is changed."),
        cancelled=gettext_lazy("The maintenance is cancelled."),
    ),
    BLOCK: Kind(
        rows=CapacityBlock.objects,
        form=BlockForm,
        shown=as_block,
        mark=block_mark,
        plan=promise_block,
        change=change_block,
        cancel=cancel_block,
        planned=gettext_lazy("The block is promised."),
        changed=gettext_lazy("The block is changed."),
        cancelled=gettext_lazy("The block is cancelled."),
    ),
}


@require_safe
@signed_in
def maintenance(request: HttpRequest) -> HttpResponse:
    """What is kept free now and later, drawn and by day; to operators also who planned it."""
    cluster = chosen_cluster(request)
    if cluster is None:
        return render(request, "scheduling/no_cluster.html")
    at = clock.now(cluster)
    entries = upcoming_in(cluster, at=at)
    shown = {
        "of": cluster,
        "at": at,
        "entries": entries,
        "under_way": sum(entry.from_at <= at for entry in entries),
        "timeline": draw_timeline(entries, at),
        "days": by_day(entries, at),
        "events": changes_of(cluster) if request.user.is_operator else (),
    }
    return render(request, "scheduling/maintenance.html", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, kind: str) -> HttpResponse:
    """The form of a new window or block; a POST plans it, or shows what it touches."""
    require_operator(request.user)
    cluster = cluster_sent(request) if request.method == "POST" else chosen_cluster(request)
    if cluster is None:
        return render(request, "scheduling/no_cluster.html")
    at = clock.now(cluster)
    return _form_page(request, Page(kind=kind, cluster=cluster, at=at))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, kind: str, entry: int) -> HttpResponse:
    """The form of a planned window or block."""
    require_operator(request.user)
    return _form_page(request, _page_of(kind, entry))


@require_POST
@signed_in
def cancel(request: HttpRequest, kind: str, entry: int) -> HttpResponse:
    require_operator(request.user)
    page = _page_of(kind, entry)
    try:
        KINDS[kind].cancel(page.row, by=request.user, at=page.at)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, str(KINDS[kind].cancelled))
    return redirect("maintenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a form is about. at: cluster clock. row: what is changed, None for a new one."""

    kind: str
    cluster: Cluster
    at: datetime
    row: Any = None


def _page_of(kind: str, entry: int) -> Page:
    """Of what is not over; any other is not there."""
    if entry > LARGEST:
        raise Http404
    row = get_object_or_404(KINDS[kind].rows.select_related("cluster"), pk=entry)
    at = clock.now(row.cluster)
    if row.until_at <= at:
        raise Http404
    return Page(kind=kind, cluster=row.cluster, at=at, row=row)


def _form_page(request: HttpRequest, page: Page) -> HttpResponse:
    form = _form(request, page)
    if request.method != "POST":
        return _shown(request, page, form, is_touching=page.row is not None)
    if not form.is_valid():
        return _shown(request, page, form, status=UNPROCESSABLE)
    if request.POST.get("action") == "check":
        return _shown(request, page, form, is_touching=True)
    try:
        _store(request, page, form)
    except Refused as refusal:
        blame(form, refusal)
        return _shown(request, page, form, status=UNPROCESSABLE)
    except Conflict as conflict:
        fresh = _page_of(page.kind, page.row.pk)
        again = _form(request, fresh, as_stored=True)
        return _shown(request, fresh, again, refusal=conflict, status=conflict.status)
    kind = KINDS[page.kind]
    messages.success(request, str(kind.changed if page.row else kind.planned))
    return redirect("maintenance")


def _form(request: HttpRequest, page: Page, *, as_stored: bool = False) -> Any:
    """As sent; else as stored, or fresh with the node that the address names."""
    kind = KINDS[page.kind]
    if page.row is not None:
        initial = kind.shown(page.row)
    else:
        initial = {"nodes": request.GET.getlist("node")}
    data = request.POST if request.method == "POST" and not as_stored else None
    return kind.form(data, initial=initial, cluster=page.cluster, at=page.at)


def _store(request: HttpRequest, page: Page, form: Any) -> None:
    kind = KINDS[page.kind]
    if page.row is None:
        kind.plan(form.wish(), cluster=page.cluster, by=request.user)
    else:
        kind.change(page.row, form.wish(), by=request.user, seen=request.POST.get("seen", ""))


def _shown(
    request: HttpRequest,
    page: Page,
    form: Any,
    *,
    is_touching: bool = False,
    refusal: PortalError | None = None,
    status: int = 200,
) -> HttpResponse:
    shown = {
        "of": page.cluster,
        "at": page.at,
        "kind": page.kind,
        "row": page.row,
        "mark": request.POST.get("seen") if form.is_bound and page.row else None,
        "form": form,
        "refusal": refusal,
        "touched": _touched(request, page, form) if is_touching else None,
    }
    if page.row is not None and not shown["mark"]:
        shown["mark"] = KINDS[page.kind].mark(page.row)
    return render(request, "scheduling/maintenance_form.html", shown, status=status)


def _touched(request: HttpRequest, page: Page, form: Any) -> Any:
    """Of the form as sent, or of what is stored."""
    wanted = form.cleaned_data if form.is_bound else form.initial
    nodes = [node for node in form.nodes if form.chosen(node)]
    but_of = page.row.tenant if page.kind == BLOCK and page.row else None
    if form.is_bound:
        but_of = wanted.get("tenant")
    return touched_by(nodes, wanted["from_at"], at=page.at, reader=request.user, but_of=but_of)
