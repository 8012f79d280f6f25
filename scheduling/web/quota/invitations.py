"""Inviting people into a tenant by mail, and what became of each invitation."""

import re
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.core.errors import Conflict, Refused
from portal.core.web import blame, found
from scheduling.web.quota.memberships import UNPROCESSABLE
from scheduling.web.quota.overview import visible_tenant
from tenants.access import require_role
from tenants.models import Invitation, PriorityClass, Role, Tenant
from tenants.services.invitations import (
    MOST_AT_ONCE,
    Line,
    Outcome,
    TooMany,
    invite,
    open_invitations,
    resend,
    withdraw,
)
from tenants.services.membership import MOST, Caps

LONGEST_PASTE = 40_000
SHOWN = 100
_APART = re.compile(r"[\s,;]+")
OUTCOMES = {
    Outcome.INVITED: gettext_lazy("invited: a mail is on its way"),
    Outcome.NO_ADDRESS: gettext_lazy("not invited: this is no mail address"),
    Outcome.TWICE: gettext_lazy("named twice: invited once"),
    Outcome.OPEN: gettext_lazy("not invited again: an invitation is open, send that one again"),
    Outcome.MEMBER: gettext_lazy("not invited: a member has this address"),
    Outcome.TOO_MANY: gettext_lazy("not invited: too many mails today, try again tomorrow"),
}


class InviteForm(forms.Form):
    emails = forms.CharField(
        label=gettext_lazy("Mail addresses"),
        max_length=LONGEST_PASTE,
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false"}),
        help_text=gettext_lazy("One or many: paste a list, one a line or with commas between."),
    )
    role = forms.TypedChoiceField(
        label=gettext_lazy("Role"),
        choices=Role.choices,
        coerce=lambda value: Role(int(value)),
        initial=Role.RESEARCHER,
    )
    gpus_at_once = forms.IntegerField(
        label=gettext_lazy("GPUs at once"), min_value=1, max_value=MOST, required=False
    )
    job_hours = forms.IntegerField(
        label=gettext_lazy("Hours of one job"), min_value=1, max_value=MOST, required=False
    )
    highest_priority = forms.ModelChoiceField(
        label=gettext_lazy("Highest priority"),
        queryset=PriorityClass.objects.offered().order_by("value"),
        required=False,
        empty_label=gettext_lazy("as the tenant"),
    )

    def caps(self) -> Caps:
        """Of a valid form."""
        names = ("gpus_at_once", "job_hours", "highest_priority")
        return Caps(**{name: self.cleaned_data[name] for name in names})


@found(visible_tenant, "GET", "HEAD", "POST")
def invitations(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """Those that are open; a POST invites, and says of each address what became of it."""
    require_role(request.user, tenant, Role.LEAD)
    form = InviteForm(request.POST if request.method == "POST" else None)
    lines = _invite(form, request, tenant) if form.is_bound and form.is_valid() else []
    rows = open_invitations(tenant).select_related("invited_by", "highest_priority")
    at = timezone.now()
    shown: dict[str, Any] = {
        "tenant": tenant,
        "form": InviteForm() if lines else form,
        "told": [(line, OUTCOMES[line.outcome]) for line in lines],
        "rows": [(row, row.expires_at <= at) for row in rows.order_by("-asked_at", "-pk")[:SHOWN]],
        "sends_mail": settings.SENDS_MAIL,
        "most": MOST_AT_ONCE,
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/invitations.html", shown, status=status)


def _invite(form: InviteForm, request: HttpRequest, tenant: Tenant) -> list[Line]:
    said = form.cleaned_data
    texts = _APART.split(said["emails"])
    try:
        return invite(
            tenant,
            texts,
            role=said["role"],
            caps=form.caps(),
            by=request.user,
            at=timezone.now(),
        )
    except Refused as refusal:
        blame(form, refusal)
        return []


def _invitation(request: HttpRequest, slug: str, invited: int) -> Invitation:
    tenant = visible_tenant(request, slug)
    return get_object_or_404(Invitation.objects.select_related("tenant"), tenant=tenant, pk=invited)


@found(_invitation, "POST")
def send_again(request: HttpRequest, invited: Invitation) -> HttpResponse:
    try:
        resend(invited, by=request.user, at=timezone.now())
    except (Conflict, TooMany) as refusal:
        messages.error(request, str(refusal))
    else:
        said = _("A new mail to %s is on its way; the link in the old one opens nothing now.")
        messages.success(request, said % invited.email)
    return redirect("invitations", slug=invited.tenant.slug)


@found(_invitation, "POST")
def take_back(request: HttpRequest, invited: Invitation) -> HttpResponse:
    try:
        withdraw(invited, by=request.user, at=timezone.now())
    except Conflict as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("The invitation of %s is withdrawn.") % invited.email)
    return redirect("invitations", slug=invited.tenant.slug)
