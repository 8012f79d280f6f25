"""The demo's people, one click each: a door that only the demo has, and only while it is one."""

from dataclasses import dataclass
from ipaddress import ip_address

from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from portal.core import audit
from portal.site.seed import LEAD, OPERATOR, PAYER, RESEARCHER
from tenants.models import User
from topology.models import Cluster


@dataclass(frozen=True, slots=True)
class Persona:
    """Somebody to be. username: of the demo's seed."""

    key: str
    username: str
    label: Promise
    about: Promise
    icon: str


PERSONAS = (
    Persona(
        "operator", OPERATOR, _("Operator"), _("runs the cluster and decides on requests"), "cpu"
    ),
    Persona("lead", LEAD, _("Lead"), _("asks for quota and looks after a tenant"), "people"),
    Persona("researcher", RESEARCHER, _("Researcher"), _("submits jobs and waits"), "jobs"),
    Persona("pi", PAYER, _("PI"), _("pays for tenants and looks at what they use"), "quota"),
)


def personas_for(request: HttpRequest) -> tuple[Persona, ...]:
    """Whom `request` may become by one click. Two queries in the demo, none elsewhere.

    Nobody once a cluster is connected that is real, or from another machine, unless somebody is one
    of them already; and nobody who has chosen a password.
    """
    if not settings.IS_DEMO:
        return ()
    usernames = [persona.username for persona in PERSONAS]
    is_one = request.user.is_authenticated and request.user.get_username() in usernames
    if not is_one and not _is_local(request):
        return ()
    if Cluster.objects.filter(is_simulated=False).exists():
        return ()
    people = User.objects.filter(username__in=usernames, is_active=True)
    free = {user.username for user in people if not user.has_usable_password()}
    return tuple(persona for persona in PERSONAS if persona.username in free)


@never_cache
def act_as(request: HttpRequest) -> HttpResponse:
    """Signs in as the persona that the form names, and shows them their first page."""
    offered = {persona.key: persona for persona in personas_for(request)}
    if not offered:
        raise Http404
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    chosen = offered.get(request.POST.get("persona", ""))
    if chosen is None:
        raise Http404
    user = User.objects.get(username=chosen.username)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    audit.record("act_as_persona", user, by=user)
    return redirect("home")


def _is_local(request: HttpRequest) -> bool:
    """Whether the browser runs on this very machine, and no proxy speaks for others."""
    if "HTTP_X_FORWARDED_FOR" in request.META:
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
