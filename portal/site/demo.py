"""The demo's own page, for its operators: how fast its clock runs, and beginning anew."""

from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.core import audit
from portal.core.errors import Refused
from portal.core.web import signed_in
from portal.embedded import checkout
from portal.site.demo_clock import SPEEDS, STANDING, set_speed
from portal.site.seed import CLUSTER
from tenants.access import require_operator
from topology.models import Cluster

View = Callable[[HttpRequest], HttpResponse]


def of_the_demo(view: View) -> View:
    """There is no such page anywhere but in the demo."""

    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if not settings.IS_DEMO:
            raise Http404
        return view(request)

    return guarded


@of_the_demo
@require_safe
@signed_in
def demo_page(request: HttpRequest) -> HttpResponse:
    """How fast the clock runs now, what else it may do, and the way to begin anew."""
    require_operator(request.user)
    cluster = _cluster()
    speeds = [{"speed": speed, "is_now": cluster.clock_speed == speed} for speed in SPEEDS]
    stands = cluster.clock_speed == STANDING
    shown = {"demo": cluster, "speeds": speeds, "stands": stands, "may_begin": _may_begin_anew()}
    return render(request, "site/demo.html", shown)


@of_the_demo
@require_POST
@signed_in
def demo_speed(request: HttpRequest) -> HttpResponse:
    """Sets the clock to the speed that the form names."""
    asked = request.POST.get("speed", "")
    try:
        set_speed(_cluster(), int(asked) if asked.isdecimal() else -1, by=request.user)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("Done: the pages show it within a few seconds."))
    return redirect("demo")


@of_the_demo
@signed_in
def demo_anew(request: HttpRequest) -> HttpResponse:
    """Asks whether all shall be forgotten; sent as a form, it has the supervisor do so."""
    require_operator(request.user)
    if not _may_begin_anew():
        raise Http404
    if request.method != "POST":
        return render(request, "site/demo_anew.html")
    if request.POST.get("sure") != "yes":
        messages.error(request, _("Tick the box first: everything will be forgotten."))
        return redirect("demo-anew")
    audit.record("begin_demo_anew", _cluster(), by=request.user)
    checkout.ask_for_reset(settings.DATA_DIR)
    return render(request, "site/demo_begins.html")


def _may_begin_anew() -> bool:
    return checkout.keeps_everything(settings.DATA_DIR)


def _cluster() -> Cluster:
    cluster = Cluster.objects.filter(slug=CLUSTER, is_simulated=True).first()
    if cluster is None:
        raise Http404
    return cluster
