"""One action on many jobs at once, and what became of each."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from portal.core.clock import cluster_time
from portal.core.errors import PortalError
from portal.core.web import signed_in
from scheduling.models import Job
from scheduling.services.holding import hold_job, release_job
from scheduling.services.lifecycle import cancel_job
from tenants.models import User

MOST = 200

Act = Callable[[Job, User, datetime], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job; why not, where nothing did."""

    job: Job
    refusal: str = ""


def _cancel(job: Job, by: User, at: datetime) -> None:
    cancel_job(job, by=by, at=at)


def _hold(job: Job, by: User, _at: datetime) -> None:
    hold_job(job, by=by)


def _release(job: Job, by: User, _at: datetime) -> None:
    release_job(job, by=by)


# What it is called, what is said of a job that it was done to, and how it is done.
ACTIONS: dict[str, tuple[Promise, Promise, Act]] = {
    "cancel": (gettext_lazy("Cancel"), gettext_lazy("is being cancelled"), _cancel),
    "hold": (gettext_lazy("Put on hold"), gettext_lazy("is on hold"), _hold),
    "release": (gettext_lazy("Release"), gettext_lazy("may start again"), _release),
}


@require_POST
@signed_in
def act_on_jobs(request: HttpRequest) -> HttpResponse:
    """Does one thing to each of the chosen jobs; what ends jobs is asked about first."""
    named = [name for name in request.POST.getlist("job")[:MOST] if "\0" not in name]
    action = request.POST.get("action", "")
    jobs = list(
        Job.objects.visible_to(request.user)
        .filter(public_id__in=named)
        .select_related("tenant", "cluster")
        .order_by("pk")
    )
    if action not in ACTIONS or not jobs:
        why = _("Choose jobs first, then what to do with them.")
        return render(request, "scheduling/jobs_acted.html", {"nothing": why}, status=422)
    label, done, act = ACTIONS[action]
    shown = {"action": action, "label": label, "done": done, "jobs": jobs}
    if action == "cancel" and "sure" not in request.POST:
        return render(request, "scheduling/jobs_sure.html", shown)
    wall = timezone.now()
    outcomes = [_tried(act, job, request.user, wall) for job in jobs]
    shown["outcomes"] = outcomes
    shown["count"] = sum(not outcome.refusal for outcome in outcomes)
    return render(request, "scheduling/jobs_acted.html", shown)


def _tried(act: Act, job: Job, by: User, wall: datetime) -> Outcome:
    try:
        act(job, by, cluster_time(job.cluster, wall=wall))
    except PortalError as refusal:
        return Outcome(job, str(refusal))
    return Outcome(job)
