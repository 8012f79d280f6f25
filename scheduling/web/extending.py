"""The form that gives a running job more time."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.core import clock
from portal.core.errors import Refused
from portal.core.web import blame, found
from scheduling.models import Job
from scheduling.services.checks import LONGEST_WALLTIME
from scheduling.services.extending import extend_job
from scheduling.states import JobState
from scheduling.web.job import visible_job
from tenants.access import require_role
from tenants.models import Role

UNPROCESSABLE = 422
HOUR = 3600
FIELD_OF = {"walltime_seconds": "hours"}


class ExtendForm(forms.Form):
    hours = forms.FloatField(
        label=gettext_lazy("Hours more"),
        min_value=0.01,
        max_value=LONGEST_WALLTIME / HOUR,
        initial=1,
        help_text=gettext_lazy("Added to the longest run that the job has now."),
    )
    seen = forms.IntegerField(required=False)  # the longest run, in seconds, that it is added to


@found(visible_job, "GET", "HEAD", "POST")
def job_extend(request: HttpRequest, job: Job) -> HttpResponse:
    """Asks for how much longer a running job may run, and gives it that."""
    require_role(request.user, job.tenant, Role.RESEARCHER)
    if job.state != JobState.RUNNING or job.limit_end_at is None:
        return redirect("job", public_id=job.public_id)
    form = ExtendForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid() and _extend(form, request, job):
        messages.success(request, _("The job has more time."))
        return redirect("job", public_id=job.public_id)
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "scheduling/job_extend.html", {"job": job, "form": form}, status=status)


def _extend(form: ExtendForm, request: HttpRequest, job: Job) -> bool:
    """Whether it was given, which a form sent twice is once; what is refused is said in it."""
    if form.cleaned_data["seen"] != job.walltime_seconds:
        form.add_error(None, _("The job has changed in the meantime; look again."))
        return False
    seconds = (job.walltime_seconds or 0) + round(form.cleaned_data["hours"] * HOUR)
    try:
        extend_job(job, seconds, by=request.user, at=clock.now(job.cluster))
    except Refused as refused:
        blame(form, refused, FIELD_OF)
        return False
    return True
