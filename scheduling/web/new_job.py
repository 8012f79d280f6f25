from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.core import clock
from portal.core.errors import Refused
from portal.core.web import blame, is_fragment, signed_in
from scheduling.models import Job
from scheduling.reports.capacity import capacity_of
from scheduling.reports.helps import Help, helps_of
from scheduling.reports.quota_use import tenants_in_use
from scheduling.services.arrays import submit_array
from scheduling.services.requests import ArrayRequest, JobRequest
from scheduling.services.submission import submit_job
from scheduling.services.trial import Trial, try_job
from scheduling.web.copying import Pattern, pattern_of
from scheduling.web.forms import FIELD_OF, JobForm, job_form
from scheduling.web.job import visible_job
from scheduling.web.job_text import BadText, curl_of, values_of, yaml_of
from scheduling.web.memory import calculator, taken_over
from scheduling.web.templates import TEMPLATES, Template
from topology.web.clusters import chosen_cluster, clusters_of

UNPROCESSABLE = 422
MOST_TENANTS = 8  # whose use is shown beside the form
FORM, YAML, CURL = VIEWS = "form", "yaml", "curl"
Done = TypeVar("Done")
Asked = JobRequest | ArrayRequest


@dataclass(frozen=True, slots=True)
class Draft:
    """A job to be, as it was sent: its form, and the text it was read from if it was one."""

    form: JobForm
    view: str
    text: str = ""
    bad: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_job(request: HttpRequest) -> HttpResponse:
    """The form of a new job, or of a copy of `?from=`, or of `?template=`; or the same as text.

    What is wrong is said beside its fields. Who looks at it another way, or takes a device over
    from the memory calculator, is told nothing yet. Asked by htmx: the calculator and its answer.
    """
    pattern, template = _pattern(request), TEMPLATES.get(request.GET.get("template", ""))
    proposed = pattern.initial if pattern else template.initial if template else None
    draft = _draft(request, proposed)
    trial = None
    if is_fragment(request):
        shown = calculator(request, draft.form)
        return render(request, "scheduling/partials/_memory_answer.html", shown)
    if request.method == "POST" and not _is_looking(request) and draft.form.is_valid():
        if "try" in request.POST:
            trial = _hand_over(draft.form, request, try_job, draft.form.to_request())
        elif submitted := _submitted(draft.form, request):
            return submitted
    shown = _shown(request, draft, trial) | {"pattern": pattern, "template": template}
    shown |= calculator(request, draft.form)
    wrong = draft.form.errors or draft.bad
    return render(request, "scheduling/job_new.html", shown, status=UNPROCESSABLE if wrong else 200)


def _is_looking(request: HttpRequest) -> bool:
    return "view" in request.POST or "use" in request.POST


def _draft(request: HttpRequest, proposed: dict[str, Any] | None) -> Draft:
    """What was sent, by the way that it is to be looked at now."""
    clusters = clusters_of(request)
    sent = request.POST if request.method == "POST" else {}
    view = sent.get("view", YAML if "yaml" in sent else FORM)
    view = view if view in VIEWS else FORM
    looking, taken = _is_looking(request), taken_over(sent)
    if taken:
        view = FORM
        messages.success(request, _("The form asks for that device now."))
    if "yaml" not in sent:
        form = job_form(request, clusters, proposed)
        return Draft(_unasked(form, sent.dict() | taken, request) if looking else form, view)
    text = sent["yaml"].replace("\r\n", "\n")
    blank = JobForm(reader=request.user, clusters=clusters)
    try:
        values = {**values_of(text, blank), "once": sent.get("once", "")}
    except BadText as wrong:
        return Draft(blank, YAML, text, str(wrong))
    if looking:
        return Draft(_unasked(blank, values | taken, request), view)
    given = {"cluster": clusters[0].slug if len(clusters) == 1 else ""} | values
    return Draft(JobForm(given, reader=request.user, clusters=clusters), YAML, text)


def _unasked(form: JobForm, values: dict[str, Any], request: HttpRequest) -> JobForm:
    """The form that proposes `values`, and does not complain of them yet."""
    known = {name: value for name, value in values.items() if name in form.fields}
    return JobForm(initial=known, reader=request.user, clusters=clusters_of(request))


def _shown(request: HttpRequest, draft: Draft, trial: Trial | None) -> dict[str, Any]:
    cluster = chosen_cluster(request)
    address = request.build_absolute_uri(reverse("api:docs").removesuffix("docs/") + "v1")
    return {
        "form": draft.form,
        "view": draft.view,
        "bad": draft.bad,
        "yaml": draft.text or yaml_of(draft.form),
        "curl": curl_of(draft.form, address=address) if draft.view == CURL else "",
        "trial": trial,
        "helps": _helps(trial, request),
        "uses": tenants_in_use(draft.form.fields["tenant"].queryset[:MOST_TENANTS]),
        "capacity": capacity_of(cluster) if cluster else (),
        "templates": _templates(),
        "last": _last_job(request),
    }


def _templates() -> list[tuple[str, Template]]:
    return list(TEMPLATES.items())


def _last_job(request: HttpRequest) -> Job | None:
    """The reader's last job, which they may like to run again."""
    own = Job.objects.visible_to(request.user).filter(owner=request.user)
    return own.newest_first().only("public_id", "name").first()


def _pattern(request: HttpRequest) -> Pattern | None:
    named = request.GET.get("from")
    return pattern_of(visible_job(request, named)) if named else None


def _helps(trial: Trial | None, request: HttpRequest) -> tuple[Help, ...]:
    if trial is None or trial.advice is None:
        return ()
    return helps_of(trial.job, trial.advice, reader=request.user)


def _submitted(form: JobForm, request: HttpRequest) -> HttpResponse | None:
    """To the page of the job or the array that was made, or None where it was refused."""
    several = form.to_array()
    if several is None:
        job = _hand_over(form, request, submit_job, form.to_request())
        if job is None:
            return None
        messages.success(request, _("Job %(job)s was submitted.") % {"job": job.name})
        return redirect("job", public_id=job.public_id)
    array = _hand_over(form, request, submit_array, several)
    if array is None:
        return None
    said = _("%(array)s was submitted, with %(size)d tasks.")
    messages.success(request, said % {"array": array.name, "size": array.size})
    return redirect(f"{reverse('job-list')}?array={array.public_id}")


def _hand_over(
    form: JobForm, request: HttpRequest, do: Callable[..., Done], asked: Asked
) -> Done | None:
    """What `do` makes of what is asked, or None after what it refused has gone into the form."""
    try:
        return do(
            asked,
            tenant=form.cleaned_data["tenant"],
            by=request.user,
            at=clock.now(form.cleaned_data["cluster"]),
        )
    except Refused as refusal:
        blame(form, refusal, FIELD_OF)
        return None
