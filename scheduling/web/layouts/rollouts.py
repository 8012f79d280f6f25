"""Bringing a layout to nodes: its preview and plan, then the rollout while it goes on."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core import clock
from portal.core.errors import PortalError
from portal.core.web import blame, polled, signed_in, tag_of
from scheduling.reports.layouts import nodes_for, with_boards
from scheduling.reports.rollout_preview import preview_rollout
from scheduling.reports.rollouts import rollout_detail
from scheduling.services.layouts.rollouts import (
    RolloutRequest,
    begin_rollout,
    check_request,
    pause_rollout,
    resume_rollout,
    revert_rollout,
)
from scheduling.web.layouts.forms import RolloutForm
from scheduling.web.operators.sent import cluster_sent
from tenants.access import require_operator
from topology.models import Layout, LayoutVersion, Node, NodeChange, Rollout
from topology.states import DRIVEN, ROLLOUT_TRANSITIONS, RolloutState
from topology.web.clusters import chosen_cluster

UNPROCESSABLE = 422
LOOK_EVERY = 3.0  # seconds
LARGEST = 2**63 - 1  # of a key
MOST_TEXT = 500
ACTS: dict[str, tuple[RolloutState, Callable[..., None]]] = {
    "pause": (RolloutState.PAUSED, pause_rollout),
    "resume": (RolloutState.RUNNING, resume_rollout),
    "revert": (RolloutState.REVERTING, revert_rollout),
}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, layout: str) -> HttpResponse:
    """The plan and, once it was asked for, what it would do. `?node=` proposes nodes."""
    require_operator(request.user)
    cluster = cluster_sent(request) if request.method == "POST" else chosen_cluster(request)
    row = get_object_or_404(Layout.objects.select_related("cluster"), cluster=cluster, slug=layout)
    version = _version(row, request)
    fitting = nodes_for(row)
    nodes = list(fitting.defer("survey", "layout_seen").in_name_order())
    form = RolloutForm(request.POST if request.method == "POST" else None)
    is_sent = request.method == "POST"
    named = request.POST.getlist("nodes") if is_sent else request.GET.getlist("node")
    chosen = list(with_boards(fitting.filter(name__in=named)).in_name_order()) if named else []
    shown = _plan_page(version, nodes, chosen, form)
    if not form.is_bound or not form.is_valid():
        return _page(request, shown)
    if left := sorted(set(named) - {node.name for node in chosen}):
        said = _("These nodes have left or are of another kind by now: %s")
        form.add_error(None, said % ", ".join(left)[:MOST_TEXT])
        return _page(request, shown)
    asked = RolloutRequest(version=version, nodes=chosen, **form.plan())
    try:
        check_request(asked)
        if request.POST.get("action") == "begin":
            rollout = begin_rollout(asked, by=request.user, at=clock.now(row.cluster))
            messages.success(request, _("The rollout has begun."))
            return redirect("rollout", rollout.pk)
    except PortalError as refusal:
        blame(form, refusal)
        return _page(request, shown)
    shown["preview"] = preview_rollout(
        version, chosen, wave=asked.wave, max_unavailable=asked.max_unavailable
    )
    return _page(request, shown)


def _version(layout: Layout, request: HttpRequest) -> LayoutVersion:
    """The newest version, or the one that the form was about."""
    asked = request.POST.get("version", request.GET.get("version", ""))
    versions = layout.versions.order_by("-number")
    if asked:
        number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0  # noqa: PLR2004 - no layout has so many
        versions = versions.filter(number=number)
    version = versions.first()
    if version is None:
        raise Http404
    version.layout = layout
    return version


def _plan_page(
    version: LayoutVersion, nodes: list[Node], chosen: list[Node], form: RolloutForm
) -> dict[str, Any]:
    busy = NodeChange.objects.filter(node__in=nodes, is_claimed=True)
    taken = dict(busy.values_list("node_id", "rollout_id"))
    lines = [(node, node in chosen, taken.get(node.pk)) for node in nodes]
    return {"version": version, "lines": lines, "form": form, "of": version.layout.cluster}


def _page(request: HttpRequest, shown: dict[str, Any]) -> HttpResponse:
    status = UNPROCESSABLE if shown["form"].errors else 200
    return render(request, "scheduling/rollout_plan.html", shown, status=status)


def _found(rollout: int) -> Rollout:
    rows = Rollout.objects.select_related("cluster", "version__layout", "begun_by")
    return get_object_or_404(rows, pk=min(rollout, LARGEST))


@require_safe
@signed_in
def rollout_page(request: HttpRequest, rollout: int) -> HttpResponse:
    """The rollout as it stands; it looks again by itself while it goes on."""
    require_operator(request.user)
    row = _found(rollout)
    detail = rollout_detail(row)
    newest = detail.events[0].pk if detail.events else 0
    at = clock.now(row.cluster)
    return polled(
        request,
        ("scheduling/rollout.html", "scheduling/partials/_rollout.html"),
        lambda: {
            "detail": detail,
            "of": row.cluster,
            "may": [act for act, (to, _do) in ACTS.items() if _may(detail, act, to)],
            "limit": timedelta(seconds=row.node_limit_seconds),
            "at": at,
        },
        tag=tag_of(request, newest, sum(len(r.jobs) for _n, wave in detail.waves for r in wave)),
        every=LOOK_EVERY,
        ended=row.state not in DRIVEN and not detail.is_moving,
    )


def _may(detail: Any, act: str, to: RolloutState) -> bool:
    if act == "resume" and detail.failed:
        return False
    return to in ROLLOUT_TRANSITIONS[RolloutState(detail.rollout.state)]


@require_POST
@signed_in
def act(request: HttpRequest, rollout: int) -> HttpResponse:
    """Stop it, go on, or take it back."""
    require_operator(request.user)
    row = _found(rollout)
    if request.POST.get("act") not in ACTS:
        raise Http404
    _to, do = ACTS[request.POST["act"]]
    try:
        do(row, by=request.user, at=clock.now(row.cluster))
    except PortalError as refusal:
        messages.error(request, str(refusal))
    return redirect("rollout", row.pk)
