"""Priority classes: the list with who uses what, and the form of one."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import blame, signed_in
from scheduling.reports.priorities import priority_changes, priority_rows
from scheduling.services.priorities import (
    MOST,
    PriorityWish,
    change_priority,
    create_priority,
    priority_mark,
    restore_priority,
    retire_priority,
)
from tenants.access import require_operator
from tenants.models import PriorityClass

UNPROCESSABLE = 422


class PriorityForm(forms.Form):
    name = forms.SlugField(
        label=gettext_lazy("Name"),
        max_length=40,
        help_text=gettext_lazy("What people choose when they submit a job."),
    )
    value = forms.IntegerField(
        label=gettext_lazy("Value"),
        min_value=-MOST,
        max_value=MOST,
        help_text=gettext_lazy("The larger goes first. No two classes have the same."),
    )
    description = forms.CharField(
        label=gettext_lazy("When to use it"), max_length=200, required=False
    )
    is_default = forms.BooleanField(
        label=gettext_lazy("The default: jobs that ask for none get it"), required=False
    )

    def wish(self) -> PriorityWish:
        return PriorityWish(**self.cleaned_data)


@require_safe
@signed_in
def priorities(request: HttpRequest) -> HttpResponse:
    """All classes, most urgent first: value, who may use it, and which jobs do now."""
    require_operator(request.user)
    rows = priority_rows()
    shown = {
        "rows": [row for row in rows if row.row],
        "strays": [row for row in rows if row.row is None],
        "events": priority_changes(),
    }
    return render(request, "scheduling/priorities.html", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    form = PriorityForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            row = create_priority(form.wish(), by=request.user)
        except Refused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _("Priority %(name)s is offered.") % {"name": row.name})
            return redirect("priorities")
    return _form_page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, priority: str) -> HttpResponse:
    require_operator(request.user)
    row = get_object_or_404(PriorityClass, name=priority)
    form = PriorityForm(request.POST if request.method == "POST" else None, initial=_stored(row))
    if not form.is_bound or not form.is_valid():
        return _form_page(request, form, row)
    try:
        change_priority(row, form.wish(), by=request.user, seen=request.POST.get("seen", ""))
    except Refused as refusal:
        blame(form, refusal)
        return _form_page(request, form, row)
    except Conflict as conflict:
        return _form_page(request, PriorityForm(initial=_stored(row)), row, conflict)
    messages.success(request, _("Priority %(name)s is changed.") % {"name": form.wish().name})
    return redirect("priorities")


@require_POST
@signed_in
def retire(request: HttpRequest, priority: str) -> HttpResponse:
    """Retire a class, or with `back` offer it again."""
    require_operator(request.user)
    row = get_object_or_404(PriorityClass, name=priority)
    try:
        if "back" in request.POST:
            restore_priority(row, by=request.user)
            said = _("Priority %(name)s is offered again.")
        else:
            retire_priority(row, by=request.user, at=timezone.now())
            said = _("Priority %(name)s is retired; the jobs that have it keep it.")
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said % {"name": row.name})
    return redirect("priorities")


def _stored(row: PriorityClass) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("name", "value", "description", "is_default")}


def _form_page(
    request: HttpRequest,
    form: PriorityForm,
    row: PriorityClass | None = None,
    refusal: PortalError | None = None,
) -> HttpResponse:
    mark = priority_mark(row) if row else ""
    if form.is_bound:
        mark = form.data.get("seen", "")
    status = refusal.status if refusal else UNPROCESSABLE if form.errors else 200
    shown = {"form": form, "row": row, "mark": mark, "refusal": refusal}
    return render(request, "scheduling/priority_form.html", shown, status=status)
