"""Language, theme and cluster, chosen by small forms that work without script."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from tenants.services.preferences import set_language
from topology.web.clusters import SESSION_KEY, clusters_of

THEME_COOKIE = "theme"
ZONE_COOKIE = "zone"  # set by static/site/theme.js
YEAR = 365 * 86_400
THEMES = (
    ("light", _("Light"), "sun"),
    ("dark", _("Dark"), "moon"),
    ("auto", _("As the system"), "half"),
)


def theme_of(request: HttpRequest) -> str:
    """The chosen theme, `auto` while none is."""
    chosen = request.COOKIES.get(THEME_COOKIE)
    return chosen if chosen in {theme for theme, _label, _icon in THEMES} else "auto"


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    response = HttpResponseRedirect(_back(request))
    _keep(response, THEME_COOKIE, request.POST.get("theme", "auto"))
    return response


@require_POST
def choose_language(request: HttpRequest) -> HttpResponse:
    language = request.POST.get("language", "")
    if language not in dict(settings.LANGUAGES):
        raise Http404
    if request.user.is_authenticated:
        set_language(request.user, language)
    response = HttpResponseRedirect(_back(request))
    _keep(response, settings.LANGUAGE_COOKIE_NAME, language)
    return response


@require_POST
def choose_cluster(request: HttpRequest) -> HttpResponse:
    slug = request.POST.get("cluster", "")
    if not request.user.is_authenticated or slug not in {c.slug for c in clusters_of(request)}:
        raise Http404
    request.session[SESSION_KEY] = slug
    return HttpResponseRedirect(_back(request))


def _back(request: HttpRequest) -> str:
    """Where the form was; home when it names another site."""
    url = request.POST.get("next", "")
    hosts = {request.get_host()}
    secure = request.is_secure()
    return url if url_has_allowed_host_and_scheme(url, hosts, require_https=secure) else "/"


def _keep(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=YEAR, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
    )
