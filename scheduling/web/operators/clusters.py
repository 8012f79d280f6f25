"""Connected clusters: the list, the page of one with what it has and lets us do, and the wizard."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.core.errors import Refused
from portal.core.web import blame, polled, signed_in, tag_of
from scheduling.reports.clusters import cluster_changes, cluster_rows
from scheduling.services.connecting import (
    FILE,
    INSIDE,
    PASTED,
    ClusterWish,
    check_again,
    connect_cluster,
    is_pasted,
    manage_cluster,
    only_look_at,
    renew_kubeconfig,
)
from scheduling.web.operators.rights import role_text
from tenants.access import require_operator
from tenants.reports.adoption import namespace_rows
from topology.models import Cluster
from topology.reports.stack import stack_rows

UNPROCESSABLE = 422
LOOK_EVERY = 5.0  # seconds
WAYS = (
    (PASTED, gettext_lazy("A kubeconfig, pasted below")),
    (INSIDE, gettext_lazy("The cluster that Muster itself runs in")),
    (FILE, gettext_lazy("A kubeconfig in a file on Muster's machines")),
)


class SecretTextarea(forms.Textarea):
    """What was written in it is never shown again."""

    def format_value(self, _value: object) -> str:
        return ""


class KubeconfigField(forms.CharField):
    widget = SecretTextarea(attrs={"rows": 10, "spellcheck": "false", "autocomplete": "off"})


class ConnectForm(forms.Form):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=120)
    slug = forms.SlugField(
        label=gettext_lazy("Short name"),
        max_length=40,
        help_text=gettext_lazy("For addresses and commands; it cannot be changed later."),
    )
    way = forms.ChoiceField(label=gettext_lazy("How to reach it"), choices=WAYS, initial=PASTED)
    kubeconfig = KubeconfigField(
        label=gettext_lazy("Kubeconfig"),
        required=False,
        help_text=gettext_lazy(
            "It is kept as a secret, in a file that only Muster reads, and never shown again."
        ),
    )
    path = forms.CharField(
        label=gettext_lazy("Path of the file"),
        max_length=400,
        required=False,
        help_text=gettext_lazy("Such as that of a secret that is mounted wherever Muster runs."),
    )

    def wish(self) -> ClusterWish:
        return ClusterWish(**self.cleaned_data)


class RenewForm(forms.Form):
    kubeconfig = KubeconfigField(
        label=gettext_lazy("Kubeconfig"),
        help_text=gettext_lazy("It is tried first; the one of before stays where it fails."),
    )


@require_safe
@signed_in
def clusters(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    return render(request, "scheduling/clusters.html", {"rows": cluster_rows()})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def connect(request: HttpRequest) -> HttpResponse:
    """The wizard's first step: how to reach it. Whoever sends it sees what was found next."""
    require_operator(request.user)
    form = ConnectForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            row = connect_cluster(form.wish(), by=request.user, at=timezone.now())
        except Refused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _("%(name)s is connected, to look only.") % {"name": row})
            return redirect("cluster", cluster=row.slug)
    status = UNPROCESSABLE if form.errors else 200
    shown = {"form": form, "role": role_text(manages=False)}
    return render(request, "scheduling/cluster_connect.html", shown, status=status)


@require_safe
@signed_in
def cluster_page(request: HttpRequest, cluster: str) -> HttpResponse:
    """One cluster: its access, what it has, what it lets us do, and what each step needs."""
    require_operator(request.user)
    row = _row(cluster)
    check = getattr(row, "check_seen", None)
    namespaces = namespace_rows(row)
    looks = [
        (each.name, each.running_gpus, each.adoption and each.adoption.tenant_id)
        for each in namespaces
    ]
    seen = (check.checked_at if check else None, row.is_writable, looks)
    return polled(
        request,
        ("scheduling/cluster.html", "scheduling/partials/_cluster.html"),
        lambda: {
            "of": row,
            "check": check,
            "parts": stack_rows(check) if check else (),
            "namespaces": namespaces,
            "role": role_text(manages=True),
            "is_pasted": is_pasted(row),
            "events": cluster_changes(row),
        },
        tag=tag_of(request, seen, row.node_count, row.gpu_count, row.job_count),
        every=LOOK_EVERY,
    )


@require_POST
@signed_in
def look_again(request: HttpRequest, cluster: str) -> HttpResponse:
    said = _("The cluster is being asked; what it says stands here in a moment.")
    return _act(request, cluster, check_again, said)


@require_POST
@signed_in
def access(request: HttpRequest, cluster: str) -> HttpResponse:
    """Let it be managed, or with `look` only looked at again."""
    if "look" in request.POST:
        return _act(request, cluster, only_look_at, _("%(name)s is only looked at from now on."))
    return _act(request, cluster, manage_cluster, _("%(name)s is managed: it takes jobs."))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def renew(request: HttpRequest, cluster: str) -> HttpResponse:
    """Another kubeconfig for a cluster: tokens end."""
    require_operator(request.user)
    row = _row(cluster)
    form = RenewForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            text = form.cleaned_data["kubeconfig"]
            renew_kubeconfig(row, text, by=request.user, at=timezone.now())
        except Refused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, _("The kubeconfig of %(name)s is renewed.") % {"name": row})
            return redirect("cluster", cluster=row.slug)
    status = UNPROCESSABLE if form.errors else 200
    shown = {"of": row, "form": form}
    return render(request, "scheduling/cluster_renew.html", shown, status=status)


def _row(slug: str) -> Any:
    return get_object_or_404(cluster_rows(), slug=slug)


def _act(request: HttpRequest, slug: str, service: Callable[..., None], said: str) -> HttpResponse:
    """One call of a service about a cluster, and back to its page."""
    require_operator(request.user)
    row = get_object_or_404(Cluster, slug=slug)
    try:
        service(row, by=request.user)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said % {"name": row} if "%" in said else said)
    return redirect("cluster", cluster=row.slug)
