"""The form that sets a tenant's GPU-hour budget."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.core.errors import Refused
from portal.core.web import blame, found
from scheduling.web.operators.keeping import InstantInput
from scheduling.web.quota.overview import visible_tenant
from tenants.access import require_operator
from tenants.models import Budget, Tenant
from tenants.services.budgets import set_budget
from topology.models import Cluster

UNPROCESSABLE = 422
MOST_HOURS = 1_000_000_000


class BudgetForm(forms.Form):
    cluster = forms.ModelChoiceField(
        Cluster.objects.order_by("pk"),
        label=gettext_lazy("Cluster"),
        empty_label=None,
        to_field_name="slug",
    )
    gpu_hours = forms.IntegerField(
        label=gettext_lazy("GPU-hours"),
        min_value=0,
        max_value=MOST_HOURS,
        help_text=gettext_lazy("One GPU held for one hour is one."),
    )
    from_at = forms.DateTimeField(label=gettext_lazy("From"), widget=InstantInput())
    until_at = forms.DateTimeField(label=gettext_lazy("Until"), widget=InstantInput())


@found(visible_tenant, "GET", "HEAD", "POST")
def budget(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """Sets a budget; one that begins at the same instant in that cluster is changed."""
    require_operator(request.user)
    data = request.POST if request.method == "POST" else None
    form = BudgetForm(data, initial=_proposed(request, tenant))
    if form.is_bound and form.is_valid() and _set(form, request, tenant):
        return redirect("tenant", slug=tenant.slug)
    shown = {"tenant": tenant, "form": form}
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "scheduling/budget_form.html", shown, status=status)


def _proposed(request: HttpRequest, tenant: Tenant) -> dict[str, Any]:
    """What the form of the budget that `?change=` names shows."""
    said = request.GET.get("change", "")
    number = int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else 0  # noqa: PLR2004 - more digits name no key
    row = Budget.objects.filter(tenant=tenant, pk=number).select_related("cluster").first()
    if row is None:
        return {}
    names = ("gpu_hours", "from_at", "until_at")
    return {name: getattr(row, name) for name in names} | {"cluster": row.cluster.slug}


def _set(form: BudgetForm, request: HttpRequest, tenant: Tenant) -> bool:
    said = form.cleaned_data
    span = {"from_at": said["from_at"], "until_at": said["until_at"]}
    try:
        set_budget(tenant, said["cluster"], gpu_hours=said["gpu_hours"], by=request.user, **span)
    except Refused as refusal:
        blame(form, refusal)
        return False
    shown = {"tenant": tenant.name}
    messages.success(request, _("The budget of %(tenant)s is set.") % shown)
    return True
