import zoneinfo
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone, translation

from portal.core.errors import PortalError
from portal.site.errors import refused
from portal.site.preferences import ZONE_COOKIE

API_PREFIX = "/api/"


class PreferencesMiddleware:
    """Answers in the language and the time zone of the person who asks.

    What the account says goes before what the browser says.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        language = getattr(request.user, "language", "")
        if language and translation.check_for_language(language):
            translation.activate(language)
            request.LANGUAGE_CODE = translation.get_language()
        zone = _zone(getattr(request.user, "time_zone", "") or request.COOKIES.get(ZONE_COOKIE))
        with timezone.override(zone):
            return self.get_response(request)


class RefusalMiddleware:
    """Turns what a service refuses into a page that says so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path:  # names nothing, and the database cannot even look for it
            raise Http404
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, PortalError) and not request.path.startswith(API_PREFIX):
            return refused(request, error)
        return None


def _zone(name: str | None) -> zoneinfo.ZoneInfo | None:
    """The zone of that name, None where the name says nothing."""
    try:
        return zoneinfo.ZoneInfo(name) if name else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # unknown; a path; a folder
        return None
