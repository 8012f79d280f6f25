"""The layout editor: a new layout, and the next version of one that there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.core.errors import Refused
from portal.core.web import blame, is_fragment, signed_in
from scheduling.reports.layouts import Kind, kinds_in
from scheduling.services.layouts.versions import make_layout, save_version, version_of
from scheduling.web.layouts.drawing import Bar, draw_bars
from scheduling.web.layouts.forms import (
    LayoutForm,
    Parts,
    initial_of,
    initial_of_plugin,
    parts_of,
    parts_sent,
)
from scheduling.web.operators.sent import cluster_sent
from tenants.access import require_operator
from topology.catalog.gpus import MODELS, GpuModel
from topology.layouts.pasted import read_pasted
from topology.layouts.wish import setup_of, wish_problems
from topology.models import Cluster, Layout, LayoutVersion
from topology.services.layouts import offers_of, wish_of
from topology.web.clusters import chosen_cluster

UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class Verdict:
    """What comes of what stands in the editor. offers: of each node, by resource name."""

    bars: list[Bar]
    offers: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(slots=True)
class Editor:
    """One look at the editor: what is edited, and what it holds now."""

    request: HttpRequest
    cluster: Cluster
    model: GpuModel
    gpus: int
    layout: Layout | None
    kinds: list[Kind]
    form: LayoutForm
    parts: Parts
    pasted_problems: tuple[str, ...] = ()

    def page(self) -> HttpResponse:
        is_wrong = self.form.is_bound and not self.form.is_valid()
        shown = {
            "of": self.cluster,
            "layout": self.layout,
            "versions": self._versions(),
            "kinds": self.kinds,
            "kind": f"{self.model.key}:{self.gpus}",
            "model": self.model,
            "gpus": self.gpus,
            "form": self.form,
            "parts": self.parts.parts,
            "verdict": self.verdict(),
            "pasted_problems": self.pasted_problems,
        }
        if is_fragment(self.request):
            return render(self.request, "scheduling/partials/_layout_verdict.html", shown)
        status = UNPROCESSABLE if is_wrong or self.pasted_problems else 200
        return render(self.request, "scheduling/layout_editor.html", shown, status=status)

    def verdict(self) -> Verdict:
        errors = tuple(part.error for part in self.parts.parts if part.error)
        version = self.version()
        if errors or version is None:
            return Verdict([], {}, errors)
        wish = wish_of(version)
        problems = wish_problems(wish)
        offers = {} if problems else offers_of(wish)
        bars = draw_bars(self.model, setup_of(wish).layouts)
        return Verdict(bars, offers, tuple(own.text(_) for own in problems))

    def version(self) -> LayoutVersion | None:
        """What would be saved; None while a field cannot be read."""
        form = self.form if self.form.is_bound else LayoutForm(_shown(self.form))
        if set(form.errors) - {"name"}:
            return None
        form.cleaned_data.setdefault("name", "")
        layout = self.layout or Layout(
            cluster=self.cluster, slug="new", gpu_model=self.model.key, gpu_count=self.gpus
        )
        return version_of(layout, form.request(self.parts.cuts), number=0)

    def save(self) -> HttpResponse:
        if not self.form.is_valid() or not self.parts.is_sound:
            return self.page()
        wanted = self.form.request(self.parts.cuts)
        user = self.request.user
        try:
            if self.layout is None:
                version = make_layout(
                    wanted,
                    cluster=self.cluster,
                    name=self.form.cleaned_data["name"],
                    gpu_model=self.model.key,
                    by=user,
                )
            else:
                version = save_version(self.layout, wanted, by=user)
        except Refused as refusal:
            blame(self.form, refusal)
            return self.page()
        said = _("Version %(number)s is saved. It reaches no node before you roll it out.")
        messages.success(self.request, said % {"number": version.number})
        return redirect("layout", version.layout.slug)

    def paste(self) -> HttpResponse:
        """Take over what a pasted file says, if nothing is wrong with it; nothing is saved."""
        post = self.request.POST
        name = post.get("config", "").strip()
        read = read_pasted(post.get("text", ""), name, self.model, self.gpus)
        self.pasted_problems = tuple(own.text(_) for own in read.problems)
        if read.cuts is not None:
            self.parts = parts_of(read.cuts, self.model)
        if read.plugin is not None:
            self.form = LayoutForm(initial=initial_of_plugin(read.plugin))
        return self.page()

    def _versions(self) -> list[LayoutVersion]:
        if self.layout is None:
            return []
        return list(self.layout.versions.select_related("made_by").order_by("-number"))


def _shown(form: LayoutForm) -> dict[str, Any]:
    """What an unbound form shows, as if it had been sent."""
    return {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    cluster = cluster_sent(request) if request.method == "POST" else chosen_cluster(request)
    if cluster is None:
        raise Http404
    kinds = kinds_in(cluster)
    asked = request.POST.get("kind") or request.GET.get("kind")
    kind = next((own for own in kinds if own.key == asked or not asked), None)
    if kind is None:
        return render(request, "scheduling/layout_no_kind.html", {"of": cluster, "kinds": kinds})
    model = next(own for own in MODELS if own.key == kind.model)
    parts = parts_of([None] * kind.gpus, model)
    form = LayoutForm()
    return _answer(Editor(request, cluster, model, kind.gpus, None, kinds, form, parts))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, layout: str) -> HttpResponse:
    require_operator(request.user)
    cluster = cluster_sent(request) if request.method == "POST" else chosen_cluster(request)
    row = get_object_or_404(Layout, cluster=cluster, slug=layout)
    latest = row.versions.order_by("-number").first()
    if latest is None:
        raise Http404
    model = next(own for own in MODELS if own.key == row.gpu_model)
    parts = parts_of(latest.cuts, model)
    form = LayoutForm(initial=initial_of(latest))
    return _answer(Editor(request, cluster, model, row.gpu_count, row, [], form, parts))


def _answer(editor: Editor) -> HttpResponse:
    request = editor.request
    if request.method != "POST":
        return editor.page()
    if request.POST.get("action") == "paste":
        return editor.paste()
    data = request.POST.copy()
    if editor.layout is not None:
        data["name"] = editor.layout.name
    editor.form = LayoutForm(data)
    editor.parts = parts_sent(request.POST, editor.model, editor.gpus)
    if request.POST.get("action") == "save" and not is_fragment(request):
        return editor.save()
    return editor.page()
