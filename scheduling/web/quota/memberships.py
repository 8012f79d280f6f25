"""People of a tenant: who is in with which role, letting people in, and putting them out."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.core.errors import Conflict, Refused
from portal.core.web import blame, found
from scheduling.models import Job
from scheduling.services.leaving import Jobs, remove_with_jobs
from scheduling.states import FINAL, HOLDING
from scheduling.web.quota.overview import people_of, visible_tenant
from tenants.access import has_role, require_role
from tenants.models import Membership, Role, Tenant, User
from tenants.services.membership import add_member, set_role

UNPROCESSABLE = 422
JOBS_LABELS = {
    Jobs.KEEP: gettext_lazy("Leave them: they stay the tenant's, and run to their end"),
    Jobs.CANCEL_WAITING: gettext_lazy("Cancel what waits; what runs may end"),
    Jobs.CANCEL_ALL: gettext_lazy("Cancel all of them: what was not saved is lost"),
    Jobs.HAND_OVER: gettext_lazy("Hand them over: they go on as another member's"),
}


class AddForm(forms.Form):
    """Somebody who has an account, by the name they sign in with."""

    username = forms.CharField(label=gettext_lazy("User name"), max_length=150)
    role = forms.TypedChoiceField(
        label=gettext_lazy("Role"),
        choices=Role.choices,
        coerce=lambda value: Role(int(value)),
        initial=Role.RESEARCHER,
    )


class LeaveForm(forms.Form):
    jobs = forms.ChoiceField(
        label=gettext_lazy("What becomes of their jobs?"),
        choices=JOBS_LABELS.items(),
        widget=forms.RadioSelect,
    )
    heir = forms.ModelChoiceField(
        label=gettext_lazy("Who gets them, if they are handed over"),
        queryset=Membership.objects.none(),
        required=False,
        empty_label=gettext_lazy("choose somebody"),
    )

    def __init__(self, *args: Any, membership: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = membership.tenant.memberships.exclude(pk=membership.pk)
        able = others.filter(role__gte=Role.RESEARCHER, user__is_active=True)
        self.fields["heir"].queryset = able.select_related("user").order_by("user__username")


@found(visible_tenant, "GET", "HEAD", "POST")
def memberships(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """Who is in; a POST lets somebody in."""
    form = AddForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid() and _add(form, request, tenant):
        return redirect("memberships", slug=tenant.slug)
    shown = {
        "tenant": tenant,
        "people": people_of(tenant),
        "form": form,
        "roles": Role.choices,
        "leads": has_role(request.user, tenant, Role.LEAD),
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/memberships.html", shown, status=status)


def _add(form: AddForm, request: HttpRequest, tenant: Tenant) -> bool:
    require_role(request.user, tenant, Role.LEAD)  # before it is told who has an account
    said = form.cleaned_data
    user = User.objects.filter(username=said["username"], is_active=True).first()
    if user is None:
        form.add_error("username", _("Nobody has that user name."))
        return False
    try:
        add_member(tenant, user, role=said["role"], by=request.user)
    except Conflict as refusal:
        form.add_error("username", str(refusal))
        return False
    messages.success(request, _("%(user)s is in.") % {"user": user})
    return True


def visible_membership(request: HttpRequest, slug: str, username: str) -> Membership:
    tenant = visible_tenant(request, slug)
    rows = tenant.memberships.select_related("user", "tenant", "highest_priority")
    return get_object_or_404(rows, user__username=username.replace("\0", ""))


@found(visible_membership, "POST")
def change_role(request: HttpRequest, membership: Membership) -> HttpResponse:
    said = request.POST.get("role", "")
    role = Role(next((role for role in Role if str(role.value) == said), membership.role))
    try:
        set_role(membership, role, by=request.user)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        shown = {"user": membership.user, "role": role.label}
        messages.success(request, _("%(user)s: %(role)s.") % shown)
    return redirect("memberships", slug=membership.tenant.slug)


@found(visible_membership, "GET", "HEAD", "POST")
def remove(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Asks what becomes of the jobs of somebody who goes, then puts them out."""
    form = LeaveForm(
        request.POST if request.method == "POST" else None,
        initial={"jobs": Jobs.KEEP},
        membership=membership,
    )
    if form.is_bound and form.is_valid() and _remove(form, request, membership):
        return redirect("memberships", slug=membership.tenant.slug)
    theirs = Job.objects.filter(tenant=membership.tenant, owner=membership.user)
    shown = {
        "membership": membership,
        "form": form,
        "leads": has_role(request.user, membership.tenant, Role.LEAD),
        "running": theirs.filter(state__in=sorted(HOLDING)).count(),
        "waiting": theirs.exclude(state__in=sorted(HOLDING | FINAL)).count(),
    }
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "tenants/membership_remove.html", shown, status=status)


def _remove(form: LeaveForm, request: HttpRequest, membership: Membership) -> bool:
    try:
        touched = remove_with_jobs(
            membership,
            Jobs(form.cleaned_data["jobs"]),
            by=request.user,
            at=timezone.now(),
            heir=form.cleaned_data["heir"],
        )
    except Refused as refusal:
        blame(form, refusal)
        return False
    said = _("%(user)s is out.") % {"user": membership.user}
    if touched and form.cleaned_data["jobs"] == Jobs.HAND_OVER:
        heir = form.cleaned_data["heir"].user
        said += " " + _("Handed over to %(user)s: %(jobs)d.") % {"user": heir, "jobs": touched}
    elif touched:
        jobs = ngettext("%(jobs)d job cancelled.", "%(jobs)d jobs cancelled.", touched)
        said += " " + jobs % {"jobs": touched}
    messages.success(request, said)
    return True
