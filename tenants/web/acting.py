"""Acting in a member's name: begun on their account's page, ended by one click on any page."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.core.acting import acting
from portal.core.errors import Refused
from portal.core.web import is_fragment, signed_in
from tenants.access import require_operator
from tenants.models import User
from tenants.services.acting import begin_acting, end_acting, is_over, may_be_acted, note_sight

KEY = "acting"  # in the session: whose name, and since when
_SAFE = ("GET", "HEAD", "OPTIONS")


@require_POST
@signed_in
def begin(request: HttpRequest, account: str) -> HttpResponse:
    """Goes on in the name of somebody, whom the page asks a reason for."""
    require_operator(request.user)
    person = get_object_or_404(User, username=account.replace("\0", ""))
    try:
        begin_acting(person, request.POST.get("reason", "").replace("\0", ""), by=request.user)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("user", person.username)
    request.session[KEY] = {"user": person.pk, "since": timezone.now().timestamp()}
    return redirect("home")


@require_POST
@signed_in
def end(request: HttpRequest) -> HttpResponse:
    """Is an operator again; who acts in nobody's name stays who they are."""
    operator = getattr(request, "really", None)
    request.session.pop(KEY, None)
    if operator is None:
        return redirect("home")
    end_acting(request.user, by=operator)
    return redirect("user", request.user.username)


class ActingMiddleware:
    """Makes `request.user` the one in whose name an operator acts, and `request.really` them.

    What was asked after the time is over, or when one of the two may no longer, is not done: in the
    operator's own name it would be something else.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        said = request.session.get(KEY)
        if said is None or not request.user.is_authenticated:
            return self.get_response(request)
        operator = request.user
        person = User.objects.filter(pk=said["user"]).first()
        still = person is not None and operator.is_operator and may_be_acted(person)
        if person is None or not still or is_over(said["since"], at=timezone.now()):
            return self._over(request, person, operator)
        request.user, request.really = person, operator
        if request.method in _SAFE and not is_fragment(request):
            note_sight(person, request.get_full_path(), by=operator)
        with acting(operator):
            return self.get_response(request)

    def _over(self, request: HttpRequest, person: User | None, operator: User) -> HttpResponse:
        del request.session[KEY]
        if person is not None:
            end_acting(person, by=operator)
        if is_fragment(request) or request.path.startswith("/api/"):
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        messages.warning(
            request,
            _("Acting in another's name is over: it lasts 30 minutes at most. Nothing was done."),
        )
        return redirect("home")
