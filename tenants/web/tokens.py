"""The reader's own API tokens: made here, shown once, ended here."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal.core.web import found, signed_in
from tenants.models import ApiToken, Role, Tenant
from tenants.services.tokens import NewToken, TokenRequest, create_token, revoke_token

UNPROCESSABLE = 422
LIFETIMES = {
    30: gettext_lazy("30 days"),
    90: gettext_lazy("90 days"),
    365: gettext_lazy("a year"),
}
SCOPE_LABELS = {
    "jobs:read": gettext_lazy("see jobs"),
    "jobs:write": gettext_lazy("submit, change and cancel jobs"),
    "nodes:read": gettext_lazy("see nodes and GPUs"),
    "tenants:read": gettext_lazy("see tenants and their people"),
    "tenants:write": gettext_lazy("let people in and put them out"),
    "quotas:read": gettext_lazy("see quota"),
    "quotas:write": gettext_lazy("set quota"),
    "quota-requests:read": gettext_lazy("see requests for quota"),
    "quota-requests:write": gettext_lazy("ask for quota, and decide"),
    "tokens:read": gettext_lazy("see tokens"),
    "tokens:write": gettext_lazy("make and revoke tokens"),
    "metrics:read": gettext_lazy("read /metrics"),
}
USUAL = ("jobs:read", "jobs:write", "nodes:read", "tenants:read")


class TokenForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        help_text=gettext_lazy("What will use it, for example: nightly training"),
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Good for"), choices=LIFETIMES.items(), coerce=int, initial=90
    )
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("What it may do, as far as you may"),
        choices=SCOPE_LABELS.items(),
        initial=USUAL,
        widget=forms.CheckboxSelectMultiple,
    )


@never_cache  # a secret may stand in it
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def tokens(request: HttpRequest) -> HttpResponse:
    """The reader's tokens; a POST makes one, and its answer is the only page with the secret."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    made = _make(form, request) if form.is_bound and form.is_valid() else None
    shown = {
        "form": TokenForm() if made else form,
        "made": made,
        "tokens": request.user.tokens.filter(revoked_at=None).order_by("-created_at", "-pk"),
        "now": timezone.now(),
        "api": request.build_absolute_uri(reverse("api:docs").removesuffix("docs/") + "v1"),
        "tenant": _tenant_to_show(request),
    }
    return render(request, "tenants/tokens.html", shown, status=_status(form, made))


def _make(form: TokenForm, request: HttpRequest) -> NewToken:
    said: dict[str, Any] = form.cleaned_data
    now = timezone.now()
    wanted = TokenRequest(
        name=said["name"], scopes=said["scopes"], expires_at=now + timedelta(days=said["days"])
    )
    return create_token(wanted, by=request.user, at=now)


def _status(form: TokenForm, made: NewToken | None) -> int:
    if made:
        return 201
    return UNPROCESSABLE if form.errors else 200


def _tenant_to_show(request: HttpRequest) -> str:
    """A tenant in which the reader may submit, for the example; empty without any."""
    offered = Tenant.objects.visible_to(request.user, at_least=Role.RESEARCHER).active()
    return offered.order_by("slug").values_list("slug", flat=True).first() or ""


def own_token(request: HttpRequest, prefix: str) -> ApiToken:
    return get_object_or_404(ApiToken, user=request.user, prefix=prefix)


@found(own_token, "POST")
def token_revoke(request: HttpRequest, token: ApiToken) -> HttpResponse:
    """Ends a token at once."""
    revoke_token(token, by=request.user, at=timezone.now())
    messages.success(request, _("%(token)s opens nothing any more.") % {"token": token})
    return redirect("tokens")
