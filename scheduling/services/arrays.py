"""One job so many times: submitted at once, stopped at once, and so many of them at one time."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from scheduling.models import JobArray, JobEvent
from scheduling.services.caps import check_caps
from scheduling.services.checks import LONGEST_NAME, check_request
from scheduling.services.lifecycle import cancel_all
from scheduling.services.requests import ArrayRequest, JobRequest
from scheduling.services.submission import create_all, next_public_ids, submitted_before
from scheduling.states import FINAL
from tenants.access import require_role
from tenants.models import Role, Tenant, User
from topology.services.cycle_request import ask_for_cycle

MOST_TASKS = 1000
INDEX, SIZE = "MUSTER_ARRAY_INDEX", "MUSTER_ARRAY_SIZE"  # what each task is told


@transaction.atomic
def submit_array(request: ArrayRequest, *, tenant: Tenant, by: User, at: datetime) -> JobArray:
    """The array, all of its tasks in the queue, with a cycle asked for once it is committed.

    An `external_id` that the cluster has an array for gives that array, as `submit_job` does.
    at: cluster clock. Raises NotAllowed, Refused; Conflict where the id is another tenant's.
    """
    require_role(by, tenant, Role.RESEARCHER)
    job = request.job
    known = submitted_before(job, job.cluster.arrays, tenant)
    if known is not None:
        return known
    _check(request)
    tasks = list(_tasks(request))
    check_request(job, tenant, at=at)
    check_request(tasks[-1], tenant, at=at)  # the longest name of all
    check_caps(job, tenant, by)
    (public_id,) = next_public_ids(1, "a")
    array = JobArray.objects.create(
        public_id=public_id,
        tenant=tenant,
        cluster=job.cluster,
        owner=by,
        name=job.name,
        size=request.tasks,
        at_once=request.at_once,
        external_id=job.external_id,
        submitted_at=at,
    )
    jobs = create_all(tasks, tenant=tenant, by=by, at=at, array=array)
    JobEvent.objects.bulk_create(
        JobEvent(job=job, to_state=job.state, reason="submitted", actor=by, at=at) for job in jobs
    )
    told = {"name": job.name, "tasks": array.size, "at_once": array.at_once}
    audit.record("submit_array", array, by=by, after=told)
    ask_for_cycle(job.cluster.pk)
    return array


def _check(request: ArrayRequest) -> None:
    if not 1 <= request.tasks <= MOST_TASKS:
        raise Refused(_("An array has 1 to %d tasks.") % MOST_TASKS, field="tasks")
    if request.at_once is not None and not 1 <= request.at_once <= request.tasks:
        raise Refused(
            _("At least one task and at most all of them may run at once."), field="at_once"
        )
    longest = LONGEST_NAME - len(_label(request.tasks - 1))
    if len(request.job.name) > longest:
        raise Refused(
            _("A name of an array has %d characters at most, as the number goes behind it.")
            % longest,
            field="name",
        )
    for name in (INDEX, SIZE):
        if name in request.job.environment:
            raise Refused(
                _("%(name)s is what the tasks are told: leave it out.") % {"name": name},
                field="environment",
            )


def _tasks(request: ArrayRequest) -> Iterator[JobRequest]:
    for index in range(request.tasks):
        told = {INDEX: str(index), SIZE: str(request.tasks)}
        yield replace(
            request.job,
            name=request.job.name + _label(index),
            environment={**request.job.environment, **told},
            external_id="",
        )


def _label(index: int) -> str:
    return f"[{index}]"


@transaction.atomic
def cancel_array(array: JobArray, *, by: User, at: datetime) -> int:
    """End all of its tasks that have not ended, as `cancel_job` would each. How many.

    Raises NotAllowed below researcher, Conflict when all have ended.
    """
    require_role(by, array.tenant, Role.RESEARCHER)
    left = array.tasks.exclude(state__in=FINAL)
    jobs = list(left.order_by("pk").select_for_update())
    if not jobs:
        raise Conflict(_("All tasks of %s have ended.") % array.public_id)
    cancel_all(jobs, by=by, at=at)
    audit.record("cancel_array", array, by=by, after={"tasks": len(jobs)})
    ask_for_cycle(array.cluster_id)
    return len(jobs)
