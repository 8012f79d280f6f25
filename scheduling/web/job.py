from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.core import clock
from portal.core.web import found, polled, tag_of
from scheduling.models import Job
from scheduling.reports.estimates import estimate_of
from scheduling.reports.explanation import Known, wait_of
from scheduling.reports.failures import failure_of
from scheduling.reports.job_detail import job_detail
from scheduling.reports.jobs import job_row, with_rows
from scheduling.reports.queue import jobs_at, queue_rows
from scheduling.services.advice import last_advice
from scheduling.services.lifecycle import cancel_job
from scheduling.states import FINAL, JobState
from scheduling.web.queue import PAGE_SIZE as QUEUE_PAGE_SIZE
from tenants.access import require_role, role_in
from tenants.models import PriorityClass, Role

LOOK_EVERY = 5.0  # seconds
MINUTE = 60
MOST_SHOWN = 5  # jobs in front
LAST_EVENTS = 8


def visible_job(request: HttpRequest, public_id: str) -> Job:
    """The job, or 404 for one that the reader may not see."""
    jobs = with_rows(Job.objects.visible_to(request.user)).select_related("reservation", "array")
    return get_object_or_404(jobs, public_id=public_id)


def job_outline(request: HttpRequest, public_id: str) -> Any:
    """The job as `visible_job`, with what tells whether its page has changed and no more.

    Most of those who ask have seen it already. `reader_role` is the reader's in its tenant. One
    query.
    """
    jobs = Job.objects.visible_to(request.user).select_related("cluster").only(*_OUTLINE)
    return get_object_or_404(jobs.annotate(reader_role=role_in(request.user)), public_id=public_id)


_OUTLINE = (
    *("public_id", "version", "state", "attempt", "reason"),
    *("cluster__clock_at", "cluster__clock_wall_at", "cluster__clock_speed"),
)


@found(job_outline, "GET", "HEAD")
def job_page(request: HttpRequest, outline: Any) -> HttpResponse:
    """One job: its state and why, members and events; while it waits, how long and what helps."""
    wall = timezone.now()
    at = clock.cluster_time(outline.cluster, wall=wall)
    ended = outline.state in FINAL
    moment = 0 if ended else int(at.timestamp()) // MINUTE
    known, role = _known(outline, wall), outline.reader_role
    return polled(
        request,
        ("scheduling/job.html", "scheduling/partials/_job_live.html"),
        lambda: _shown(request, outline, known, wall),
        tag=tag_of(request, outline.pk, outline.version, moment, _marks(known), role),
        every=LOOK_EVERY,
        ended=ended,
    )


def _shown(request: HttpRequest, outline: Any, known: Known, wall: datetime) -> dict[str, Any]:
    """What the page says. It is read after what its tag says, so it may be newer but not older."""
    job = visible_job(request, outline.public_id)
    at = clock.cluster_time(job.cluster, wall=wall)
    may_submit = outline.reader_role >= Role.RESEARCHER
    may_act = job.state not in FINAL and may_submit
    return {
        "job": job,
        "row": job_row(job, at=at),
        "tab": "overview",
        **_detail(job, at),
        "ended": job.state in FINAL,
        "priority_name": _priority_name(job),
        "may_submit": may_submit,
        "may_cancel": may_act,
        "may_change": may_act,
        "may_extend": may_act and job.state == JobState.RUNNING and job.limit_end_at,
        **(_waiting(request, job, known, wall) if job.state == JobState.QUEUED else {}),
        "may_ask": outline.reader_role >= Role.LEAD,
    }


def _detail(job: Job, at: datetime) -> dict[str, Any]:
    detail = job_detail(job, at=at)
    return {
        "detail": detail,
        "last_events": detail.events[-LAST_EVENTS:],
        "failure": failure_of(job, [row.member for row in detail.members], detail.events),
    }


def _known(job: Job, wall: datetime) -> Known:
    """Advice stays while it is tried again: a button must not vanish from under the pointer."""
    found = last_advice(job, wall=wall)
    if found is None:
        return Known(None, estimate_of(job))
    return Known(found.advice, estimate_of(job), is_true=found.is_true)


def _marks(known: Known) -> list[object]:
    """What tells this knowledge from an earlier one."""
    marks = (known.advice and known.advice.checked_at, known.estimate and known.estimate.made_at)
    return [known.is_true, *(mark for mark in marks if mark)]


def _waiting(request: HttpRequest, job: Job, known: Known, wall: datetime) -> dict[str, Any]:
    """What a page says of a wait."""
    at = clock.cluster_time(job.cluster, wall=wall)
    told = wait_of(job, known, reader=request.user, at=at)
    places = told.competing[:MOST_SHOWN]
    rank = told.position.rank if told.position else 1
    return {
        "told": told,
        "position": told.position,
        "ahead": queue_rows(places, jobs_at(places), reader=request.user, wall=wall),
        "queue_page": (rank - 1) // QUEUE_PAGE_SIZE + 1,
    }


@found(visible_job, "GET", "HEAD", "POST")
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
