"""The policy of a cluster: what is in force, a form to change it, its history, and the way back."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from portal.core.errors import Conflict, PortalError, Refused
from portal.core.web import Slice, blame, signed_in
from scheduling.engine import policy as engine
from scheduling.engine.codec import from_plain, to_plain
from scheduling.models import Policy
from scheduling.reports.policy_history import changes_between, policy_steps
from scheduling.reports.policy_trial import try_policy
from scheduling.services.policies import (
    DEFAULT,
    newest_policy,
    policy_in_force,
    policy_of,
    restore_policy,
    set_policy,
)
from scheduling.web.operators.knobs import GROUPS, KNOBS, priority_names
from scheduling.web.operators.sent import cluster_sent, number_sent
from tenants.access import require_operator
from topology.models import Cluster
from topology.web.clusters import chosen_cluster

PAGE_SIZE = 20
UNPROCESSABLE = 422


class PolicyForm(forms.Form):
    """All knobs that an operator turns, and why."""

    note = forms.CharField(
        label=gettext_lazy("Why"),
        max_length=300,
        help_text=gettext_lazy("Whoever looks at the history reads it."),
    )

    def __init__(self, *args: Any, before: engine.Policy, **kwargs: Any) -> None:
        """before: the policy that the operator looked at."""
        super().__init__(*args, **kwargs)
        self.before = to_plain(before)
        names = priority_names(self.before["across"], self.initial.get("across"))
        for name, knob in KNOBS.items():
            field = knob.make(knob.label, names)
            field.help_text = knob.meaning
            self.fields[name] = field
            self.initial.setdefault(name, self.before[name])
        self.fields["note"].required = self.data.get("action") != "try"

    def changes(self) -> dict[str, Any]:
        """Knob and value of what a valid form wants otherwise than it was."""
        said = self.cleaned_data
        return {name: said[name] for name in KNOBS if said[name] != self.before[name]}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and not self.changes():
            raise forms.ValidationError(_("Nothing differs from the policy in force."))
        return cleaned


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def policy_page(request: HttpRequest) -> HttpResponse:
    """What is in force; a POST changes it, or tries the change on a recorded cycle."""
    require_operator(request.user)
    if request.method == "POST":
        return _sent(request)
    cluster = chosen_cluster(request)
    if cluster is None:
        return render(request, "scheduling/no_cluster.html")
    return _page(request, cluster, PolicyForm(before=policy_in_force(cluster)))


def _sent(request: HttpRequest) -> HttpResponse:
    cluster = cluster_sent(request)
    seen = number_sent(request, "seen")
    before = policy_of(cluster, seen) or policy_in_force(cluster)
    form = PolicyForm(request.POST, before=before)
    if not form.is_valid():
        return _page(request, cluster, form, status=UNPROCESSABLE)
    if request.POST.get("action") == "try":
        return _tried(request, cluster, form)
    try:
        row = set_policy(
            cluster, form.changes(), by=request.user, seen=seen, note=form.cleaned_data["note"]
        )
    except Refused as refusal:
        blame(form, refusal)
        return _page(request, cluster, form, status=UNPROCESSABLE)
    except Conflict as conflict:
        return _overtaken(request, cluster, form, conflict)
    return _done(request, row)


@require_POST
@signed_in
def restore(request: HttpRequest) -> HttpResponse:
    """An earlier policy, named by `number`, once more."""
    require_operator(request.user)
    cluster = cluster_sent(request)
    seen = number_sent(request, "seen")
    try:
        row = restore_policy(cluster, number_sent(request, "number"), by=request.user, seen=seen)
    except (Refused, Conflict) as refusal:
        form = PolicyForm(before=policy_in_force(cluster))
        return _page(request, cluster, form, refusal=refusal, status=refusal.status)
    return _done(request, row)


def _done(request: HttpRequest, row: Policy) -> HttpResponse:
    said = _("Policy %(number)d is in force; the next cycle plans with it.")
    messages.success(request, said % {"number": row.number})
    return redirect("policies")


def _tried(request: HttpRequest, cluster: Cluster, form: PolicyForm) -> HttpResponse:
    in_force = policy_in_force(cluster)
    wanted = from_plain(to_plain(in_force) | form.changes(), engine.Policy)
    trial = try_policy(cluster, in_force, wanted)
    return _page(request, cluster, form, tried=True, trial=trial)


def _overtaken(
    request: HttpRequest, cluster: Cluster, form: PolicyForm, conflict: Conflict
) -> HttpResponse:
    """The other's policy, with what this operator wants otherwise laid over it."""
    in_force = policy_in_force(cluster)
    theirs = changes_between(from_plain(form.before, engine.Policy), in_force)
    mine = form.changes() | {"note": form.cleaned_data["note"]}
    again = PolicyForm(before=in_force, initial=mine)
    return _page(request, cluster, again, refusal=conflict, theirs=theirs, status=conflict.status)


def _page(
    request: HttpRequest,
    cluster: Cluster,
    form: PolicyForm,
    *,
    refusal: PortalError | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    newest = newest_policy(cluster)
    in_force = policy_in_force(cluster)
    count = Policy.objects.filter(cluster=cluster).count()
    page = Slice.asked_for(request, size=PAGE_SIZE, total=count)
    names = priority_names()
    shown = {
        "of": cluster,
        "newest": newest,
        "form": form,
        "seen": form.data.get("seen") or (newest.number if newest else 0),
        "groups": _groups(form, in_force, names),
        "names": names,
        "differing": len(changes_between(DEFAULT, in_force)),
        "knob_count": len(KNOBS),
        "steps": policy_steps(cluster, start=page.start, size=page.size, default=DEFAULT),
        "page": page,
        "refusal": refusal,
        **more,
    }
    return render(request, "scheduling/policy.html", shown, status=status)


def _groups(
    form: PolicyForm, in_force: engine.Policy, names: dict[int, str]
) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Legend and lines of each group: the field, what is in force and what the default is."""
    now, usual = to_plain(in_force), to_plain(DEFAULT)
    return [
        (
            legend,
            [
                {
                    "field": form[knob.name],
                    "now": knob.says(now[knob.name], names),
                    "usual": knob.says(usual[knob.name], names),
                    "is_usual": now[knob.name] == usual[knob.name],
                }
                for knob in knobs
            ],
        )
        for legend, knobs in GROUPS
    ]
