from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.core.web import found, polled, tag_of
from scheduling.models import Job
from scheduling.reports.spec import as_yaml, spec_of
from scheduling.states import FINAL
from scheduling.web.job import LOOK_EVERY, job_outline, visible_job
from tenants.access import has_role
from tenants.models import Role


@found(job_outline, "GET", "HEAD")
def job_events(request: HttpRequest, outline: Any) -> HttpResponse:
    """Every step in the life of a job, the last one first."""
    return polled(
        request,
        ("scheduling/job_events.html", "scheduling/partials/_job_events.html"),
        lambda: {
            "job": visible_job(request, outline.public_id),
            "tab": "events",
            "may_submit": outline.reader_role >= Role.RESEARCHER,
            "events": outline.events.select_related("actor").order_by("-pk"),
        },
        tag=tag_of(request, "events", outline.pk, outline.version, outline.reader_role),
        every=LOOK_EVERY,
        ended=outline.state in FINAL,
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
