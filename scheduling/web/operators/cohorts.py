"""The tree of cohorts, and the forms that change it: each shows first what becomes of whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import blame, found, signed_in
from scheduling.reports.cohorts import branches_of, effects_of
from scheduling.web.quota.overview import visible_tenant
from tenants.access import require_operator
from tenants.models import Cohort, Quota, Tenant
from tenants.services.cohorts import (
    MOST_WEIGHT,
    CohortWish,
    Outlook,
    carry_out,
    change_cohort,
    foresee,
    make_cohort,
    move_tenant,
    remove_cohort,
    set_cohort_quota,
)
from tenants.services.quota import QuotaAmounts, set_quota
from tenants.snapshots import read_tree
from topology.models import ResourceFlavor

UNPROCESSABLE = 422
MOST_GPUS = 1_000_000


class CohortChoice(forms.ModelChoiceField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            Cohort.objects.order_by("name"), required=False, to_field_name="name", **options
        )


class CohortForm(forms.Form):
    name = forms.SlugField(label=gettext_lazy("Name"), max_length=64)
    parent = CohortChoice(
        label=gettext_lazy("Hangs in"), empty_label=gettext_lazy("nothing: it is a root")
    )
    weight = forms.IntegerField(
        label=gettext_lazy("Weight"),
        min_value=1,
        max_value=MOST_WEIGHT,
        help_text=gettext_lazy("Its share of what there is to borrow, against its neighbours."),
    )

    def wish(self) -> CohortWish:
        return CohortWish(**self.cleaned_data)


class MoveForm(forms.Form):
    cohort = CohortChoice(
        label=gettext_lazy("Cohort"), empty_label=gettext_lazy("none: it borrows from nobody")
    )


class LimitsForm(forms.Form):
    flavor = forms.ModelChoiceField(
        ResourceFlavor.objects.select_related("cluster").order_by("name", "pk"),
        label=gettext_lazy("Kind of GPU"),
        empty_label=None,
    )
    nominal = forms.IntegerField(
        label=gettext_lazy("Guaranteed GPUs"), min_value=0, max_value=MOST_GPUS
    )
    borrowing_limit = forms.IntegerField(
        label=gettext_lazy("May borrow"),
        min_value=0,
        max_value=MOST_GPUS,
        required=False,
        help_text=gettext_lazy("Empty is no limit."),
    )
    lending_limit = forms.IntegerField(
        label=gettext_lazy("Lends at most"),
        min_value=0,
        max_value=MOST_GPUS,
        required=False,
        help_text=gettext_lazy("Empty is all that it leaves idle."),
    )

    def amounts(self) -> QuotaAmounts:
        names = ("nominal", "borrowing_limit", "lending_limit")
        return QuotaAmounts(**{name: self.cleaned_data[name] for name in names})


class CohortLimitsForm(LimitsForm):
    none = forms.BooleanField(
        label=gettext_lazy("It has none of its own, and no limits"), required=False
    )


@dataclass(slots=True)
class Look:
    """What a form has come to: what its change would do, what was refused, whether it is done."""

    outlook: Outlook | None = None
    refusal: PortalError | None = None
    is_done: bool = False


@require_safe
@signed_in
def cohorts(request: HttpRequest) -> HttpResponse:
    """All cohorts and tenants, each where it hangs, with what it has."""
    require_operator(request.user)
    roots, alone = branches_of(read_tree())
    return render(request, "scheduling/cohorts.html", {"roots": roots, "alone": alone})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    """An empty cohort: it takes from nobody and gives nobody anything, so there is no preview."""
    require_operator(request.user)
    form = CohortForm(request.POST if request.method == "POST" else None, initial={"weight": 1})
    refusal = None
    if form.is_bound and form.is_valid():
        try:
            row = make_cohort(form.wish(), by=request.user)
        except Refused as error:
            blame(form, error)
        except Conflict as conflict:
            refusal = conflict
        else:
            messages.success(request, _("Cohort %(name)s is made.") % {"name": row.name})
            return redirect("cohorts")
    return _page(request, "cohort_form", form, Look(refusal=refusal))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, cohort: str) -> HttpResponse:
    require_operator(request.user)
    row = get_object_or_404(Cohort.objects.select_related("parent"), name=cohort)
    stored = {"name": row.name, "parent": row.parent and row.parent.name, "weight": row.weight}
    form = CohortForm(request.POST if request.method == "POST" else None, initial=stored)
    look = _look(request, form, lambda: change_cohort(row, form.wish(), by=request.user))
    if look.is_done:
        messages.success(request, _("Cohort %(name)s is changed.") % {"name": form.wish().name})
        return redirect("cohorts")
    return _page(request, "cohort_form", form, look, cohort=row)


@require_POST
@signed_in
def remove(request: HttpRequest, cohort: str) -> HttpResponse:
    """Takes an empty cohort away."""
    require_operator(request.user)
    row = get_object_or_404(Cohort, name=cohort)
    try:
        remove_cohort(row, by=request.user)
    except PortalError as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("Cohort %(name)s is taken away.") % {"name": row.name})
    return redirect("cohorts")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def limits(request: HttpRequest, cohort: str) -> HttpResponse:
    """What a cohort has as a whole of one flavor, and what it borrows and lends at most."""
    require_operator(request.user)
    row = get_object_or_404(Cohort, name=cohort)
    form = _limits_form(request, CohortLimitsForm, Quota.objects.filter(cohort=row))

    def change() -> None:
        asked = None if form.cleaned_data["none"] else form.amounts()
        flavor = form.cleaned_data["flavor"]
        set_cohort_quota(asked, cohort=row, flavor=flavor, by=request.user)

    look = _look(request, form, change)
    if look.is_done:
        messages.success(request, _("The limits of %(name)s are set.") % {"name": row.name})
        return redirect("cohorts")
    return _page(request, "cohort_limits", form, look, cohort=row)


@found(visible_tenant, "GET", "HEAD", "POST")
def tenant_cohort(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """Moves a tenant to another cohort."""
    require_operator(request.user)
    stored = {"cohort": tenant.cohort and tenant.cohort.name}
    form = MoveForm(request.POST if request.method == "POST" else None, initial=stored)
    look = _look(
        request, form, lambda: move_tenant(tenant, form.cleaned_data["cohort"], by=request.user)
    )
    if look.is_done:
        messages.success(request, _("%(tenant)s is moved.") % {"tenant": tenant.name})
        return redirect("cohorts")
    return _page(request, "tenant_cohort", form, look, tenant=tenant)


@found(visible_tenant, "GET", "HEAD", "POST")
def tenant_limits(request: HttpRequest, tenant: Tenant) -> HttpResponse:
    """What a tenant is guaranteed of one flavor, and what it borrows and lends at most."""
    require_operator(request.user)
    form = _limits_form(request, LimitsForm, Quota.objects.filter(tenant=tenant))

    def change() -> None:
        flavor = form.cleaned_data["flavor"]
        set_quota(form.amounts(), tenant=tenant, flavor=flavor, by=request.user)

    look = _look(request, form, change)
    if look.is_done:
        messages.success(request, _("The limits of %(name)s are set.") % {"name": tenant.name})
        return redirect("cohorts")
    return _page(request, "cohort_limits", form, look, tenant=tenant)


def _look(request: HttpRequest, form: forms.Form, change: Callable[[], None]) -> Look:
    """Show what `change` would do; do it where that was shown already and is still so.

    What is done is what was seen: other words in the form, or another tree by now, are shown anew.
    """
    look = Look()
    if not form.is_bound or not form.is_valid():
        return look
    try:
        if request.POST.get("do") == "save":
            look.is_done = _carried_out(change, request.POST.get("seen", ""), look)
        if not look.is_done:
            look.outlook = foresee(change)
    except Refused as refusal:
        blame(form, refusal)
    except Conflict as conflict:
        look.refusal = conflict
    return look


def _carried_out(change: Callable[[], None], seen: str, look: Look) -> bool:
    try:
        carry_out(change, seen=seen)
    except Conflict as conflict:
        look.refusal = conflict
        return False
    return True


def _limits_form(
    request: HttpRequest, kind: type[LimitsForm], quotas: QuerySet[Quota]
) -> LimitsForm:
    """Filled with what is set of the flavor that `?flavor=` names, or else of the first."""
    if request.method == "POST":
        return kind(request.POST)
    said = request.GET.get("flavor", "")
    number = int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else 0  # noqa: PLR2004 - more digits name no key
    names = ("flavor", "nominal", "borrowing_limit", "lending_limit")
    rows = quotas.order_by("flavor__name", "pk")
    if number:
        rows = rows.filter(flavor=number)
    return kind(initial=rows.values(*names).first() or {"flavor": number or None, "nominal": 0})


def _page(
    request: HttpRequest, template: str, form: forms.Form, look: Look, **shown: Any
) -> HttpResponse:
    status = look.refusal.status if look.refusal else UNPROCESSABLE if form.errors else 200
    if look.outlook is not None:
        shown["mark"] = look.outlook.mark
        shown["effects"] = effects_of(look.outlook.before, look.outlook.after)
        shown["is_change"] = look.outlook.before != look.outlook.after
    shown |= {"form": form, "refusal": look.refusal, "is_shown": look.outlook is not None}
    return render(request, f"scheduling/{template}.html", shown, status=status)
