"""Putting a member out, and what becomes of their jobs: that is asked, never assumed."""

from datetime import datetime
from enum import StrEnum

from django.db import transaction

from portal.core.clock import cluster_time
from portal.core.errors import Conflict
from scheduling.models import Job
from scheduling.services.lifecycle import cancel_job
from scheduling.states import FINAL, JobState
from tenants.models import Membership, User
from tenants.services.membership import remove_member


class Jobs(StrEnum):
    """What becomes of the jobs of a person who leaves."""

    KEEP = "keep"  # all stay, the tenant's as before
    CANCEL_WAITING = "cancel_waiting"  # what runs may end
    CANCEL_ALL = "cancel_all"


@transaction.atomic
def remove_with_jobs(membership: Membership, jobs: Jobs, *, by: User, at: datetime) -> int:
    """Put a member out; how many of their jobs in the tenant were cancelled. at: wall clock.

    A job that ends by itself meanwhile is left alone. Raises NotAllowed below lead, Refused for
    the last lead.
    """
    theirs = Job.objects.filter(tenant=membership.tenant, owner=membership.user)
    remove_member(membership, by=by)
    if jobs == Jobs.KEEP:
        return 0
    live = theirs.exclude(state__in=FINAL).select_related("tenant", "cluster").order_by("pk")
    if jobs == Jobs.CANCEL_WAITING:
        live = live.filter(state__in=[JobState.QUEUED, JobState.SUSPENDED])
    return sum(_cancel(job, by=by, at=at) for job in live)


def _cancel(job: Job, *, by: User, at: datetime) -> bool:
    try:
        with transaction.atomic():
            cancel_job(job, by=by, at=cluster_time(job.cluster, wall=at))
    except Conflict:
        return False
    return True
