from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.core import clock
from portal.core.errors import Refused
from portal.core.web import found
from scheduling.engine.explain import ChangeKind
from scheduling.models import Job, Level
from scheduling.reports.jobs import job_row
from scheduling.reports.reasons import duration_text
from scheduling.services.changing import JobChange, change_waiting_job
from scheduling.states import JobState
from scheduling.web.job import visible_job
from tenants.access import require_role
from tenants.models import Role

UNPROCESSABLE = 422
MOST_DIGITS = 9


@found(visible_job, "GET", "HEAD", "POST")
def job_change(request: HttpRequest, job: Job) -> HttpResponse:
    """Shows what a waiting job would ask for differently; then has it ask for that."""
    change = _asked(request)
    require_role(request.user, job.tenant, Role.RESEARCHER)
    if job.state != JobState.QUEUED:
        return redirect("job", public_id=job.public_id)
    refusal = ""
    if request.method == "POST":
        try:
            change_waiting_job(job, change, by=request.user, seen=_seen(request))
        except Refused as refused:
            refusal = str(refused)
        else:
            messages.success(request, _("The job now asks for this; it keeps its place."))
            return redirect("job", public_id=job.public_id)
    present, then = _words(job, change)
    shown = {"job": job, "change": change, "present": present, "then": then, "refusal": refusal}
    status = UNPROCESSABLE if refusal else 200
    return render(request, "scheduling/job_change.html", shown, status=status)


def _asked(request: HttpRequest) -> JobChange:
    """The change that the address names; one that makes no sense is no page."""
    kind, value = request.GET.get("kind", ""), request.GET.get("value", "")
    if kind not in set(ChangeKind) or (kind in _NUMBERS and not _is_number(value)):
        raise Http404
    if kind == ChangeKind.LEVEL and value and value not in Level.values:
        raise Http404
    return JobChange(ChangeKind(kind), value[:80])


_NUMBERS = {ChangeKind.MEMBERS, ChangeKind.GPUS_PER_MEMBER, ChangeKind.WALLTIME}


def _is_number(value: str) -> bool:
    return value.isdecimal() and len(value) <= MOST_DIGITS


def _seen(request: HttpRequest) -> int:
    version = request.POST.get("version", "")
    return int(version) if _is_number(version) else -1


def _words(job: Job, change: JobChange) -> tuple[str, str]:
    """What is asked for now, and then."""
    row = job_row(job, at=clock.now(job.cluster))
    groups = list(job.groups.all())
    value = change.value
    match change.kind:
        case ChangeKind.MEMBERS:
            return str(sum(group.min_member for group in groups)), value
        case ChangeKind.GPUS_PER_MEMBER:
            return str(groups[0].gpus_per_member), value
        case ChangeKind.FLAVOR:
            accepted = ", ".join(row.flavors)
            return accepted or _("any model"), f"{accepted}, {value}"
        case ChangeKind.LEVEL:
            return _level(job.required_level), _level(value)
        case ChangeKind.WALLTIME:
            limit = job.walltime_seconds
            return duration_text(limit) if limit else _("no limit"), duration_text(int(value))
        case ChangeKind.PREEMPTIBLE:
            return _("is not stopped for others"), _("may be stopped for others")


def _level(value: str) -> str:
    return str(Level(value).label) if value else _("any nodes")
