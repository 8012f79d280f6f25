from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.core.web import found, polled, tag_of
from scheduling.models import Job
from scheduling.reports.spec import as_yaml, spec_of
from scheduling.states import FINAL
from scheduling.web.job import LOOK_EVERY, visible_job
from tenants.access import has_role
from tenants.models import Role


@found(visible_job, "GET", "HEAD")
def job_events(request: HttpRequest, job: Job) -> HttpResponse:
    """Every step in the life of a job, the last one first."""
    return polled(
        request,
        ("scheduling/job_events.html", "scheduling/partials/_job_events.html"),
        lambda: {
            "job": job,
            "tab": "events",
            "may_submit": has_role(request.user, job.tenant, Role.RESEARCHER),
            "events": job.events.select_related("actor").order_by("-pk"),
        },
        tag=tag_of(request, "events", job.pk, job.version),
        every=LOOK_EVERY,
        ended=job.state in FINAL,
    )


@found(visible_job, "GET", "HEAD")
def job_spec(request: HttpRequest, job: Job) -> HttpResponse:
    """What was asked for, as it could be submitted again."""
    shown = {
        "job": job,
        "tab": "spec",
        "may_submit": has_role(request.user, job.tenant, Role.RESEARCHER),
        "spec": as_yaml(spec_of(job)),
    }
    return render(request, "scheduling/job_spec.html", shown)
