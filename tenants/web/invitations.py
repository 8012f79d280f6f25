"""What the bearer of an invitation's link sees: who asks them in, and how to come in."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal.core.errors import Conflict, Refused
from portal.core.web import blame
from tenants.models import Invitation
from tenants.services.invitations import (
    InvitationSpent,
    has_account,
    invitation_of,
    join,
    join_anew,
)
from tenants.services.users import UserWish

GONE, UNPROCESSABLE = 410, 422
BACKEND = "django.contrib.auth.backends.ModelBackend"


class AccountForm(forms.Form):
    """An account to be; its address is the one that was invited."""

    username = forms.CharField(
        label=gettext_lazy("User name"),
        max_length=150,
        help_text=gettext_lazy("What you sign in with; it is never changed."),
    )
    first_name = forms.CharField(label=gettext_lazy("First name"), max_length=150, required=False)
    last_name = forms.CharField(label=gettext_lazy("Last name"), max_length=150, required=False)

    def wish(self) -> UserWish:
        return UserWish(**self.cleaned_data)


@never_cache  # its address is a secret
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Asks before it lets anybody in: what opens links in mails by itself uses none up."""
    try:
        invited = invitation_of(secret, at=timezone.now())
        return _page(request, invited, secret)
    except InvitationSpent:
        return render(request, "tenants/invitation_spent.html", status=GONE)


def _page(request: HttpRequest, invited: Invitation, secret: str) -> HttpResponse:
    knows = has_account(invited)
    posted = request.POST if request.method == "POST" else None
    form = AccountForm(posted)
    if posted is not None and request.user.is_authenticated:
        return _join(request, invited, secret)
    if not knows and form.is_bound and form.is_valid():
        try:
            user = join_anew(secret, form.wish(), at=timezone.now())
        except InvitationSpent:
            raise
        except (Conflict, Refused) as refusal:
            blame(form, refusal)
        else:
            login(request, user, backend=BACKEND)
            return redirect("password")
    shown: dict[str, Any] = {"invited": invited, "form": form, "knows": knows}
    status = UNPROCESSABLE if form.errors and not knows else 200
    return render(request, "tenants/invitation.html", shown, status=status)


def _join(request: HttpRequest, invited: Invitation, secret: str) -> HttpResponse:
    try:
        join(secret, request.user, at=timezone.now())
    except Conflict as refusal:
        messages.info(request, str(refusal))
    else:
        messages.success(request, _("You are in %s.") % invited.tenant.name)
    return redirect("home")
