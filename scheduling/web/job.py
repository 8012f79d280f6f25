from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from portal.core import clock
from portal.core.web import found, polled, tag_of
from scheduling.models import Job
from scheduling.reports.job_detail import job_detail
from scheduling.reports.jobs import job_row, with_rows
from scheduling.reports.queue import position_of
from scheduling.services.lifecycle import cancel_job
from scheduling.states import FINAL
from tenants.access import has_role, require_role
from tenants.models import PriorityClass, Role

LOOK_EVERY = 5.0  # seconds
MINUTE = 60


def _visible_job(request: HttpRequest, public_id: str) -> Job:
    return get_object_or_404(with_rows(Job.objects.visible_to(request.user)), public_id=public_id)


@found(_visible_job, "GET", "HEAD")
def job_page(request: HttpRequest, job: Job) -> HttpResponse:
    """One job: its state and why, its members, its events."""
    at = clock.now(job.cluster)
    ended = job.state in FINAL
    moment = 0 if ended else int(at.timestamp()) // MINUTE
    return polled(
        request,
        ("scheduling/job.html", "scheduling/partials/_job_live.html"),
        lambda: {
            "job": job,
            "row": job_row(job, at=at),
            "detail": job_detail(job, at=at),
            "ended": ended,
            "position": position_of(job),
            "priority_name": _priority_name(job),
            "may_cancel": not ended and has_role(request.user, job.tenant, Role.RESEARCHER),
        },
        tag=tag_of(request, job.pk, job.version, moment),
        every=LOOK_EVERY,
        ended=ended,
    )


@found(_visible_job, "GET", "HEAD", "POST")
def job_cancel(request: HttpRequest, job: Job) -> HttpResponse:
    """Asks first; then cancels."""
    if request.method == "POST":
        cancel_job(job, by=request.user, at=clock.now(job.cluster))
        messages.success(request, _("Job %(job)s is being cancelled.") % {"job": job.name})
        return redirect("job", public_id=job.public_id)
    require_role(request.user, job.tenant, Role.RESEARCHER)
    if job.state in FINAL:
        return redirect("job", public_id=job.public_id)
    row = job_row(job, at=clock.now(job.cluster))
    return render(request, "scheduling/job_cancel.html", {"job": job, "row": row})


def _priority_name(job: Job) -> str:
    names = PriorityClass.objects.filter(value=job.priority).values_list("name", flat=True)
    return names.first() or ""
