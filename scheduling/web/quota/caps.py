"""The limits of one member: what they may ask for, and what becomes of what runs above them."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.core.errors import Refused
from portal.core.web import blame, found
from scheduling.models import Job
from scheduling.services.caps import Over, above, change_caps
from scheduling.web.quota.memberships import UNPROCESSABLE, visible_membership
from tenants.access import has_role, require_role
from tenants.models import Membership, PriorityClass, Role
from tenants.services.membership import MOST, Caps

OVER_LABELS = {
    Over.LEAVE: gettext_lazy(
        "Leave them: they run to their end; others wait until there is room below the limit"
    ),
    Over.STOP: gettext_lazy(
        "Stop them: they go back to the queue, and start again from what they saved"
    ),
}


class CapsForm(forms.Form):
    gpus_at_once = forms.IntegerField(
        label=gettext_lazy("GPUs at once"),
        min_value=1,
        max_value=MOST,
        required=False,
        help_text=gettext_lazy(
            "That all jobs of this person in this tenant hold together, in each cluster. Further"
            " jobs wait."
        ),
    )
    job_hours = forms.IntegerField(
        label=gettext_lazy("Hours of one job"),
        min_value=1,
        max_value=MOST,
        required=False,
        help_text=gettext_lazy("The longest run that a job may ask for."),
    )
    highest_priority = forms.ModelChoiceField(
        label=gettext_lazy("Highest priority"),
        queryset=PriorityClass.objects.none(),
        required=False,
        empty_label=gettext_lazy("as the tenant"),
    )
    over = forms.ChoiceField(choices=OVER_LABELS.items(), widget=forms.RadioSelect, required=False)

    def __init__(self, *args: Any, membership: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = PriorityClass.objects.offered()
        own = PriorityClass.objects.filter(pk=membership.highest_priority_id)
        self.fields["highest_priority"].queryset = (offered | own).order_by("value")

    def caps(self) -> Caps:
        """Of a valid form."""
        names = ("gpus_at_once", "job_hours", "highest_priority")
        return Caps(**{name: self.cleaned_data[name] for name in names})


@found(visible_membership, "GET", "HEAD", "POST")
def caps(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Asks what becomes of jobs above a lower limit before it is set."""
    posted = request.POST if request.method == "POST" else None
    present = {
        "gpus_at_once": membership.gpus_at_once,
        "job_hours": membership.job_hours,
        "highest_priority": membership.highest_priority_id,
    }
    form = CapsForm(posted, initial=present, membership=membership)
    too_many: list[Job] = []
    if posted is not None:
        require_role(request.user, membership.tenant, Role.LEAD)
    if form.is_bound and form.is_valid():
        too_many = _unanswered(form, membership)
        if not too_many and _change(form, request, membership):
            return redirect("memberships", slug=membership.tenant.slug)
    shown = {
        "membership": membership,
        "form": form,
        "above": too_many,
        "leads": has_role(request.user, membership.tenant, Role.LEAD),
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/membership_caps.html", shown, status=status)


def _unanswered(form: CapsForm, membership: Membership) -> list[Job]:
    """Jobs above the new limit of whom nobody said for this very limit what becomes of them."""
    wanted = form.cleaned_data["gpus_at_once"]
    is_asked = form.data.get("asked") == str(wanted)
    if form.cleaned_data["over"] and is_asked:
        return []
    return above(membership, wanted)


def _change(form: CapsForm, request: HttpRequest, membership: Membership) -> bool:
    over = Over(form.cleaned_data["over"] or Over.LEAVE)
    try:
        stopped = change_caps(membership, form.caps(), over, by=request.user, at=timezone.now())
    except Refused as refusal:
        blame(form, refusal)
        return False
    said = _("Limits of %(user)s are set.") % {"user": membership.user}
    if stopped:
        said += " " + _("Stopped for it: %(jobs)d.") % {"jobs": stopped}
    messages.success(request, said)
    return True
