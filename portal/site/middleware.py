import zoneinfo
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
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
        # NUL names nothing, and the database cannot even look for it.
        if "\0" in request.path:
            raise Http404
        if "%00" in request.META.get("QUERY_STRING", "") and not _is_api(request):
            request.GET = _without_nul(request.GET)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, PortalError) and not _is_api(request):
            return refused(request, error)
        return None


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(API_PREFIX)


def _without_nul(asked: QueryDict) -> QueryDict:
    kept = QueryDict(mutable=True)
    for name, values in asked.lists():
        kept.setlist(name, [value.replace("\0", "") for value in values])
    return kept


def _zone(name: str | None) -> zoneinfo.ZoneInfo | None:
    """The zone of that name, None where the name says nothing."""
    try:
        return zoneinfo.ZoneInfo(name) if name else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # unknown; a path; a folder
        return None
