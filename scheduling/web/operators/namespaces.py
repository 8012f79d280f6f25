"""A namespace that others made: what is in it, what would become of it, whose it shall be."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from portal.core.errors import Conflict, Refused
from portal.core.web import blame, signed_in
from tenants.access import require_operator
from tenants.models import AdoptedNamespace, Tenant
from tenants.reports.adoption import NamespaceRow, namespace_rows
from tenants.services.adoption import adopt_namespace, give_back_namespace
from topology.models import Cluster

UNPROCESSABLE = 422


class AdoptForm(forms.Form):
    tenant = forms.ModelChoiceField(
        Tenant.objects.active().order_by("slug"),
        label=gettext_lazy("Tenant"),
        empty_label="–",
        to_field_name="slug",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def namespace(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """What becomes of its work, before it is taken over; the form takes it over."""
    require_operator(request.user)
    of = get_object_or_404(Cluster, slug=cluster)
    row = _row(of, name)
    form = AdoptForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        tenant = form.cleaned_data["tenant"]
        try:
            adopt_namespace(of, name, tenant, by=request.user, at=timezone.now())
        except (Refused, Conflict) as refusal:
            blame(form, refusal)
        else:
            said = _("%(name)s is being taken over for %(tenant)s.")
            messages.success(request, said % {"name": name, "tenant": tenant.name})
            return redirect("namespace", cluster=cluster, name=name)
    status = UNPROCESSABLE if form.errors else 200
    shown = {"of": of, "row": row, "form": form}
    return render(request, "scheduling/namespace.html", shown, status=status)


@require_POST
@signed_in
def give_back(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    require_operator(request.user)
    of = get_object_or_404(Cluster, slug=cluster)
    wish = get_object_or_404(AdoptedNamespace, cluster=of, name=name, returned_at=None)
    give_back_namespace(wish, by=request.user, at=timezone.now())
    said = _("%(name)s is being given back; what waits at the gate is let go.")
    messages.success(request, said % {"name": name})
    return redirect("namespace", cluster=cluster, name=name)


def _row(cluster: Cluster, name: str) -> NamespaceRow:
    found = next((row for row in namespace_rows(cluster) if row.name == name), None)
    if found is None:
        raise Http404
    return found
