"""Pages for what went wrong: what happened, what was changed, what to do next."""

import sys

from django.db import InterfaceError, OperationalError
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
    """Our fault, or the database is away.

    Rendered without the context of other pages: whatever broke them may break that too.
    """
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return _broken(request, "503.html", status=503, headers={"Retry-After": "5"})
    return _broken(request, "500.html", status=500)


def _broken(
    request: HttpRequest, template: str, *, status: int, headers: dict[str, str] | None = None
) -> HttpResponse:
    page = loader.render_to_string(
        template, {"request_id": request.META.get("muster.request_id", "")}
    )
    return HttpResponse(page, status=status, headers=headers)


def _page(request: HttpRequest, status: int, *, title: str, text: str) -> HttpResponse:
    shown = {"status": status, "title": title, "text": text}
    return render(request, "site/error.html", shown, status=status)
