"""Webhooks of a person, and of a tenant for its leads: what there is, a form, and what to do."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.core.errors import Conflict, Refused
from portal.core.web import blame, found, signed_in
from tenants.access import require_role
from tenants.models import NotificationKind, Role, Tenant, User, Webhook
from tenants.models.notification import MAILED
from tenants.services.webhooks import (
    WebhookWish,
    add_webhook,
    remove_webhook,
    revive_webhook,
    try_webhook,
)

UNPROCESSABLE = 422
Kind = NotificationKind
NOT_OFFERED = {Kind.WEBHOOK_DEAD}  # told where somebody reads it
OF_OPERATORS = {Kind.REQUEST_WAITING}
# What a tenant's is told of: the labels of people speak of what is theirs.
OF_TENANTS = {
    Kind.JOB_STARTED: gettext_lazy("a job of the tenant starts"),
    Kind.JOB_ENDED: gettext_lazy("a job of the tenant ends"),
    Kind.JOB_FAILED: gettext_lazy("a job of the tenant fails"),
    Kind.JOB_PREEMPTED: gettext_lazy("a job of the tenant is stopped for another"),
    Kind.REQUEST_DECIDED: gettext_lazy("a request of the tenant is answered"),
    Kind.QUOTA_ENDING: gettext_lazy("quota of the tenant ends"),
}


class WebhookForm(forms.Form):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=60)
    style = forms.ChoiceField(label=gettext_lazy("Of"), choices=Webhook.Style.choices)
    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=2000,
        widget=forms.URLInput({"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("It begins with https://. It is not shown again."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Secret"),
        max_length=200,
        required=False,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "off"}),
        help_text=gettext_lazy("Where Feishu or DingTalk asks for a signature."),
    )
    kinds = forms.MultipleChoiceField(
        label=gettext_lazy("It is told when"), widget=forms.CheckboxSelectMultiple()
    )

    def __init__(self, *args: Any, kinds: Mapping[Kind, str | Promise], **options: Any) -> None:
        usual = [kind.value for kind in kinds if kind in MAILED]
        super().__init__(*args, initial={"kinds": usual}, **options)
        self.fields["kinds"].choices = [(kind.value, label) for kind, label in kinds.items()]

    def wish(self) -> WebhookWish:
        said = self.cleaned_data
        return WebhookWish(
            name=said["name"],
            style=Webhook.Style(said["style"]),
            url=said["url"],
            kinds=tuple(NotificationKind(kind) for kind in said["kinds"]),
            secret=said["secret"],
        )


@never_cache
@sensitive_post_parameters("url", "secret")
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def own_webhooks(request: HttpRequest) -> HttpResponse:
    """The reader's own."""
    return _page(request, None)


def tenant_to_lead(request: HttpRequest, slug: str) -> Tenant:
    """The tenant of that name, 404 for who is not in it."""
    return get_object_or_404(Tenant.objects.visible_to(request.user), slug=slug)


@never_cache
@sensitive_post_parameters("url", "secret")
@found(tenant_to_lead, "GET", "HEAD", "POST")
def tenant_webhooks(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """Those of a tenant, for its leads."""
    require_role(request.user, tenant, Role.LEAD)
    return _page(request, tenant)


def own_webhook(request: HttpRequest, webhook: int) -> Webhook:
    return get_object_or_404(Webhook, user=request.user, pk=min(webhook, _LARGEST))


def webhook_of_tenant(request: HttpRequest, slug: str, hook: int) -> Webhook:
    tenant = tenant_to_lead(request, slug)
    rows = Webhook.objects.select_related("tenant")
    return get_object_or_404(rows, tenant=tenant, pk=min(hook, _LARGEST))


_LARGEST = 2**63 - 1  # of a key


@found(own_webhook, "POST")
def act_on_own(request: HttpRequest, webhook: Webhook) -> HttpResponse:
    return _act(request, webhook)


@found(webhook_of_tenant, "POST")
def act_on_tenants(request: HttpRequest, webhook: Webhook) -> HttpResponse:
    return _act(request, webhook)


def _act(request: HttpRequest, webhook: Webhook) -> HttpResponse:
    """Tries it, brings it back, or takes it away."""
    shown = {"name": webhook.name}
    try:
        match request.POST.get("action"):
            case "try":
                try_webhook(webhook, by=request.user, at=timezone.now())
                said = _("%(name)s took the test.")
            case "revive":
                revive_webhook(webhook, by=request.user)
                said = _("%(name)s is told again what happens from now on.")
            case "remove":
                remove_webhook(webhook, by=request.user)
                said = _("%(name)s is taken away.")
            case _:
                raise Http404
    except (Refused, Conflict) as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said % shown)
    return redirect(_address(webhook.tenant))


def _page(request: HttpRequest, tenant: Tenant | None) -> HttpResponse:
    kinds = OF_TENANTS if tenant else _kinds_of(request.user)
    form = WebhookForm(request.POST if request.method == "POST" else None, kinds=kinds)
    made = None
    if form.is_bound and form.is_valid():
        try:
            made = add_webhook(form.wish(), tenant=tenant, by=request.user)
        except Refused as refusal:
            blame(form, refusal)
        else:
            if made.style != Webhook.Style.GENERIC:  # nothing of it has to be shown once
                messages.success(request, _("%(name)s is kept. Try it now.") % {"name": made.name})
                return redirect(_address(tenant))
            form = WebhookForm(kinds=kinds)
    rows = Webhook.objects.filter(tenant=tenant) if tenant else request.user.webhooks.all()
    shown = {
        "tenant": tenant,
        "rows": rows.order_by("name"),
        "form": form,
        "made": made,
        "kinds": kinds,
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/webhooks.html", shown, status=status)


def _kinds_of(user: User) -> dict[Kind, str | Promise]:
    hidden = NOT_OFFERED | (set() if user.is_operator else OF_OPERATORS)
    return {kind: kind.label for kind in Kind if kind not in hidden}


def _address(tenant: Tenant | None) -> str:
    return reverse("tenant-webhooks", args=[tenant.slug]) if tenant else reverse("webhooks")
