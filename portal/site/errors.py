"""Pages for what went wrong: what happened, what was changed, what to do next."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader
from django.utils.translation import gettext as _
from django.views.decorators.csrf import requires_csrf_token

from portal.core.errors import PortalError


def refused(request: HttpRequest, error: PortalError) -> HttpResponse:
    """What a service refused, in its own words."""
    titles = {
        403: _("You may not do this"),
        404: _("Not found, or you may not see it"),
        409: _("Somebody changed this first"),
        422: _("That cannot be done"),
        503: _("The cluster does not answer"),
    }
    title = titles.get(error.status, _("That was not understood"))
    return _page(request, error.status, title=title, text=str(error))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(
        request,
        400,
        title=_("That was not understood"),
        text=_("Nothing was changed. Go back and try again."),
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(
        request,
        403,
        title=_("You may not do this"),
        text=_("Your role does not reach that far. A lead of the tenant or an operator can help."),
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(
        request,
        404,
        title=_("Not found, or you may not see it"),
        text=_("The address may be mistyped, or the page belongs to a tenant you are not in."),
    )


@requires_csrf_token
def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _page(
        request,
        403,
        title=_("This form was open for too long"),
        text=_("Nothing was changed. Go back, load the page again, and send the form once more."),
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Rendered without the context of other pages: whatever broke them may break that too."""
    page = loader.render_to_string(
        "500.html", {"request_id": request.META.get("muster.request_id", "")}
    )
    return HttpResponse(page, status=500)


def _page(request: HttpRequest, status: int, *, title: str, text: str) -> HttpResponse:
    shown = {"status": status, "title": title, "text": text}
    return render(request, "site/error.html", shown, status=status)
