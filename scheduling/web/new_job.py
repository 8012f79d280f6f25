from collections.abc import Callable
from typing import TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.core import clock
from portal.core.errors import Refused
from portal.core.web import blame, signed_in
from scheduling.reports.capacity import capacity_of
from scheduling.reports.helps import Help, helps_of
from scheduling.reports.quota_use import tenants_in_use
from scheduling.services.submission import submit_job
from scheduling.services.trial import Trial, try_job
from scheduling.web.copying import Pattern, pattern_of
from scheduling.web.forms import FIELD_OF, JobForm, job_form
from scheduling.web.job import visible_job
from topology.web.clusters import chosen_cluster, clusters_of

UNPROCESSABLE = 422
Done = TypeVar("Done")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_job(request: HttpRequest) -> HttpResponse:
    """The form of a new job, or of a copy of `?from=`; what is wrong is said beside its fields."""
    pattern = _pattern(request)
    form = job_form(request, clusters_of(request), pattern and pattern.initial)
    trial = None
    if request.method == "POST" and form.is_valid():
        if "try" in request.POST:
            trial = _hand_over(form, request, try_job)
        elif job := _hand_over(form, request, submit_job):
            messages.success(request, _("Job %(job)s was submitted.") % {"job": job.name})
            return redirect("job", public_id=job.public_id)
    cluster = chosen_cluster(request)
    shown = {
        "form": form,
        "pattern": pattern,
        "trial": trial,
        "helps": _helps(trial, request),
        "uses": tenants_in_use(form.fields["tenant"].queryset),
        "capacity": capacity_of(cluster) if cluster else (),
    }
    return render(
        request, "scheduling/job_new.html", shown, status=UNPROCESSABLE if form.errors else 200
    )


def _pattern(request: HttpRequest) -> Pattern | None:
    named = request.GET.get("from")
    return pattern_of(visible_job(request, named)) if named else None


def _helps(trial: Trial | None, request: HttpRequest) -> tuple[Help, ...]:
    if trial is None or trial.advice is None:
        return ()
    return helps_of(trial.job, trial.advice, reader=request.user)


def _hand_over(form: JobForm, request: HttpRequest, do: Callable[..., Done]) -> Done | None:
    """What `do` makes of the request, or None after what it refused has gone into the form."""
    asked = form.to_request()
    try:
        return do(
            asked,
            tenant=form.cleaned_data["tenant"],
            by=request.user,
            at=clock.now(asked.cluster),
        )
    except Refused as refusal:
        blame(form, refusal, FIELD_OF)
        return None
