"""The system page: is the portal itself well? For operators."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.core.errors import Refused
from portal.core.web import signed_in
from portal.site.machinery import look_at_machinery
from scheduling.reports.system import ClusterHealth, system_health
from tenants.access import require_operator
from tenants.services.mail import send_test_mail

UNSEEN_AFTER = 120.0  # wall seconds without an answer of a cluster


@require_safe
@signed_in
def system_page(request: HttpRequest) -> HttpResponse:
    """Cycles, watchers, drift, queue and workers, as they are at this moment."""
    require_operator(request.user)
    machinery = look_at_machinery()
    clusters = system_health(wall=timezone.now())
    shown = {
        "clusters": clusters,
        "machinery": machinery,
        "sends_mail": settings.SENDS_MAIL,
        "is_well": bool(machinery.workers) and not any(map(_is_ill, clusters)),
    }
    return render(request, "site/system.html", shown)


def _is_ill(health: ClusterHealth) -> bool:
    age = health.vitals.seen_age_seconds
    is_unseen = age is None or age > UNSEEN_AFTER
    return health.is_stalled or not health.is_watched or is_unseen or bool(health.drift.total)


@require_POST
@signed_in
def test_mail(request: HttpRequest) -> HttpResponse:
    """Mails the operator who asks a few words, and says what came of it."""
    try:
        send_test_mail(by=request.user)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        shown = {"address": request.user.email}
        messages.success(request, _("A mail is on its way to %(address)s.") % shown)
    return redirect("system")
