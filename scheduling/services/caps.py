"""What one person may do in a tenant: refused at submission, and put in force for what runs."""

from datetime import datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.core import audit
from portal.core.clock import cluster_time
from portal.core.errors import Refused
from scheduling.models import Job, most_devices
from scheduling.querysets import JobQuerySet
from scheduling.services.lifecycle import stop
from scheduling.services.requests import JobRequest
from scheduling.states import JobState
from tenants.access import require_role
from tenants.models import Membership, PriorityClass, Role, Tenant, User
from tenants.services.membership import Caps, set_caps

HOUR = 3600
STOPPED = "above what its owner may hold"


class Over(StrEnum):
    """What becomes of jobs that run above a cap."""

    LEAVE = "leave"  # they run on; what waits does so until enough of them have ended
    STOP = "stop"  # the newest of them go back to the queue


def check_caps(request: JobRequest, tenant: Tenant, by: User) -> None:
    """Refuse with Refused what `by` may not ask for in `tenant`; who is no member has no caps."""
    own = _membership(tenant, by)
    if own is None:
        return
    _check_gpus(request, own)
    _check_hours(own, request.walltime_seconds, field="walltime_seconds")
    _check_priority(request, own)


def check_hours(job: Job, seconds: int, *, field: str) -> None:
    """Refuse with Refused a longest run that the owner of `job` may not ask for."""
    own = _membership(job.tenant, job.owner)
    if own is not None:
        _check_hours(own, seconds, field=field)


def _membership(tenant: Tenant, user: User) -> Membership | None:
    rows = Membership.objects.filter(tenant=tenant, user=user)
    return rows.select_related("highest_priority", "tenant").first()


def _check_gpus(request: JobRequest, own: Membership) -> None:
    asked = sum(group.most * group.devices_per_member for group in request.groups)
    if own.gpus_at_once is not None and asked > own.gpus_at_once:
        text = ngettext(
            "In %(tenant)s you may hold %(limit)d GPU at once, and this asks for %(asked)d: ask for"
            " less, or ask a lead for a higher limit.",
            "In %(tenant)s you may hold %(limit)d GPUs at once, and this asks for %(asked)d: ask"
            " for less, or ask a lead for a higher limit.",
            own.gpus_at_once,
        )
        numbers = {"limit": own.gpus_at_once, "asked": asked}
        said = {"tenant": own.tenant.slug, **numbers}
        raise Refused(text % said, field="gpus_per_member", numbers=numbers)


def _check_hours(own: Membership, seconds: int | None, *, field: str) -> None:
    if own.job_hours is not None and (seconds is None or seconds > own.job_hours * HOUR):
        text = _(
            "In %(tenant)s a job of yours may run for %(limit)d h at most: give it a longest run"
            " within that, or ask a lead for a higher limit."
        )
        said = {"tenant": own.tenant.slug, "limit": own.job_hours}
        raise Refused(text % said, field=field, numbers={"limit": own.job_hours * HOUR})


def _check_priority(request: JobRequest, own: Membership) -> None:
    highest = own.highest_priority
    asked = request.priority_class or PriorityClass.objects.filter(is_default=True).first()
    if highest is not None and (asked.value if asked else 0) > highest.value:
        text = _(
            "In %(tenant)s you may use priorities up to %(highest)s: choose that or a lower one,"
            " or ask a lead."
        )
        said = {"tenant": own.tenant.slug, "highest": highest.name}
        raise Refused(text % said, field="priority")


def above(membership: Membership, gpus_at_once: int | None) -> list[Job]:
    """Jobs that the member would have to give back to hold no more than that, newest first.

    In each cluster by itself; who started first stays. One query.
    """
    if gpus_at_once is None:
        return []
    displaceable = _theirs(membership).displaceable().select_related("cluster")
    theirs = displaceable.annotate(devices=most_devices())
    left: dict[int, int] = {}
    found = []
    for job in theirs.order_by(F("started_at").asc(nulls_last=True), "pk"):
        room = left.setdefault(job.cluster_id, gpus_at_once)
        if job.devices <= room:
            left[job.cluster_id] -= job.devices
        else:
            found.append(job)
    return found[::-1]


def _theirs(membership: Membership) -> JobQuerySet:
    return Job.objects.filter(tenant=membership.tenant, owner=membership.user)


@transaction.atomic
def change_caps(membership: Membership, caps: Caps, over: Over, *, by: User, at: datetime) -> int:
    """Give a member other caps; how many jobs were stopped for it. at: wall clock.

    A job that is stopped goes back to the queue, and waits there for its owner's own jobs. Raises
    as `set_caps`.
    """
    require_role(by, membership.tenant, Role.LEAD)
    stopped = 0
    if over == Over.STOP:
        jobs = above(membership, caps.gpus_at_once)
        stopped = sum(_stop(job, by=by, at=at) for job in jobs)
    set_caps(membership, caps, by=by)  # last: it asks for a cycle
    return stopped


def _stop(job: Job, *, by: User, at: datetime) -> bool:
    at = cluster_time(job.cluster, wall=at)
    won = stop(job, towards=JobState.QUEUED, at=at, reason=STOPPED, by=by)
    if won:
        audit.record("stop_above_cap", job, by=by)
    return won
