"""Putting a member out, and what becomes of their jobs: that is asked, never assumed."""

from datetime import datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.clock import cluster_time
from portal.core.errors import Conflict, Refused
from scheduling.models import Job, JobArray
from scheduling.querysets import JobQuerySet
from scheduling.services.lifecycle import cancel_job
from scheduling.states import FINAL, JobState
from tenants.models import Membership, Role, User
from tenants.services.membership import remove_member
from topology.services.cycle_request import ask_for_cycle


class Jobs(StrEnum):
    """What becomes of the jobs of a person who leaves."""

    KEEP = "keep"  # all stay, the tenant's as before
    CANCEL_WAITING = "cancel_waiting"  # what runs may end
    CANCEL_ALL = "cancel_all"
    HAND_OVER = "hand_over"  # to another member, whose they are from now on


@transaction.atomic
def remove_with_jobs(
    membership: Membership, jobs: Jobs, *, by: User, at: datetime, heir: Membership | None = None
) -> int:
    """Put a member out; how many of their jobs were cancelled, or handed over. at: wall clock.

    heir: who gets jobs that are handed over. A job that ends by itself meanwhile is left alone.
    Raises NotAllowed below lead, Refused for the last lead and an heir who may run no jobs.
    """
    theirs = Job.objects.filter(tenant=membership.tenant, owner=membership.user)
    remove_member(membership, by=by)
    if jobs == Jobs.KEEP:
        return 0
    live = theirs.exclude(state__in=FINAL).select_related("tenant", "cluster").order_by("pk")
    if jobs == Jobs.HAND_OVER:
        return _hand_over(live, membership, heir, by=by)
    if jobs == Jobs.CANCEL_WAITING:
        live = live.filter(state__in=[JobState.QUEUED, JobState.SUSPENDED])
    return sum(_cancel(job, by=by, at=at) for job in live)


def _hand_over(
    live: JobQuerySet, membership: Membership, heir: Membership | None, *, by: User
) -> int:
    """Make live jobs, and arrays of them, another member's; what their limits say holds at once."""
    is_fit = heir is not None and heir.tenant_id == membership.tenant_id
    if heir is None or not is_fit or heir.role < Role.RESEARCHER or heir.user == membership.user:
        raise Refused(
            _("Choose another member who may run jobs, a researcher or a lead."), field="heir"
        )
    jobs = list(live.select_for_update(of=("self",)))
    arrays = {job.array_id for job in jobs if job.array_id}
    JobArray.objects.filter(pk__in=arrays).update(owner=heir.user)
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        owner=heir.user, version=F("version") + 1
    )
    before = {"owner": membership.user.username}
    for job in jobs:
        audit.record(
            "hand_over_job", job, by=by, before=before, after={"owner": heir.user.username}
        )
    for cluster_id in sorted({job.cluster_id for job in jobs}):
        ask_for_cycle(cluster_id)
    return len(jobs)


def _cancel(job: Job, *, by: User, at: datetime) -> bool:
    try:
        with transaction.atomic():
            cancel_job(job, by=by, at=cluster_time(job.cluster, wall=at))
    except Conflict:
        return False
    return True
