from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Manager
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict
from portal.core.locks import hold_name
from scheduling.models import Job, JobArray, JobDependency, JobEvent, JobFlavor, JobGroup
from scheduling.services.caps import check_caps
from scheduling.services.checks import check_external_id, check_request
from scheduling.services.requests import After, GroupRequest, JobRequest, Wishes
from tenants.access import require_role
from tenants.models import PriorityClass, Role, Tenant, User
from topology.services.cycle_request import ask_for_cycle

__all__ = ["After", "GroupRequest", "JobRequest", "Wishes", "submit_job"]

_ALPHABET = "0123456789bcdfghjkmnpqrstvwxyz"  # no vowels, no l: nothing to misread or to blush at
_DIGITS = 6


@transaction.atomic
def submit_job(request: JobRequest, *, tenant: Tenant, by: User, at: datetime) -> Job:
    """The job, in its tenant's queue, with a cycle asked for once it is committed.

    A request with an `external_id` that the cluster already has gives the job that is there, so
    that a program may ask twice, whatever the limits have become meanwhile; Conflict if that one
    belongs to another tenant.
    at: cluster clock. Raises NotAllowed, Refused.
    """
    require_role(by, tenant, Role.RESEARCHER)
    known = submitted_before(request, request.cluster.jobs, tenant)
    if known is not None:
        return known
    check_request(request, tenant, at=at)
    check_caps(request, tenant, by)
    job = create_rows(request, tenant=tenant, by=by, at=at)
    JobEvent.objects.create(job=job, to_state=job.state, reason="submitted", actor=by, at=at)
    audit.record("submit_job", job, by=by, after={"name": job.name, "gpus": _gpus(request)})
    ask_for_cycle(request.cluster.pk)
    return job


def submitted_before(request: JobRequest, submitted: Manager[Any], tenant: Tenant) -> Any:
    """What `tenant` submitted by the external id of `request`, or None.

    submitted: jobs of the request's cluster, or arrays. Raises Refused, Conflict where it is
    another tenant's.
    """
    if not request.external_id:
        return None
    check_external_id(request.external_id)
    # Nobody else submits this external id until the commit: the second one finds the first's.
    hold_name(f"{request.cluster.pk}:{request.external_id}")
    known = submitted.filter(external_id=request.external_id).first()
    if known is not None and known.tenant_id != tenant.pk:
        raise Conflict(
            _("That external id is taken in this cluster; use another."), field="external_id"
        )
    return known


def create_rows(request: JobRequest, *, tenant: Tenant, by: User, at: datetime) -> Job:
    """The job's own rows, of a request that was checked; nobody is told of it."""
    (job,) = create_all([request], tenant=tenant, by=by, at=at)
    return job


def create_all(
    requests: Sequence[JobRequest],
    *,
    tenant: Tenant,
    by: User,
    at: datetime,
    array: JobArray | None = None,
) -> list[Job]:
    """The rows of jobs, in their order, in a fixed number of queries; see `create_rows`.

    array: whose tasks they are, all of them.
    """
    classes = {request.priority_class for request in requests}
    priority = {chosen: _priority(chosen) for chosen in classes}
    rows = [
        _job(request, tenant=tenant, owner=by, submitted_at=at, public_id=public_id)
        for request, public_id in zip(requests, next_public_ids(len(requests)), strict=True)
    ]
    for index, (job, request) in enumerate(zip(rows, requests, strict=True)):
        job.priority = priority[request.priority_class]
        if array is not None:
            job.array, job.array_index = array, index
    jobs = Job.objects.bulk_create(rows)
    of = list(zip(jobs, requests, strict=True))
    JobGroup.objects.bulk_create(
        _group(job, index, group)
        for job, request in of
        for index, group in enumerate(request.groups)
    )
    JobFlavor.objects.bulk_create(
        JobFlavor(job=job, flavor=flavor, rank=rank)
        for job, request in of
        for rank, flavor in enumerate(request.flavors)
    )
    JobDependency.objects.bulk_create(
        JobDependency(job=job, on=after.job, needs_success=after.needs_success)
        for job, request in of
        for after in request.wishes.after
    )
    return jobs


def _job(request: JobRequest, **known: Any) -> Job:
    return Job(
        cluster=request.cluster,
        name=request.name,
        is_preemptible=request.is_preemptible,
        walltime_seconds=request.walltime_seconds,
        image=request.image,
        command=list(request.command),
        environment=dict(request.environment),
        annotations=dict(request.annotations),
        external_id=request.external_id,
        **_wished(request.wishes),
        **known,
    )


def _wished(wishes: Wishes) -> dict[str, Any]:
    """The columns of a job that its wishes fill."""
    return {
        "gpu_memory_mib": wishes.gpu_memory_mib,
        "service_class": wishes.service_class,
        "is_standby": wishes.is_standby,
        "not_before": wishes.not_before,
        "required_level": wishes.required or "",
        "preferred_level": wishes.preferred or "",
        "patience_seconds": wishes.patience_seconds,
        "needs_island": wishes.needs_island,
        "grace_seconds": wishes.grace_seconds,
        "min_total": wishes.min_total,
    }


def _group(job: Job, index: int, group: GroupRequest) -> JobGroup:
    return JobGroup(
        job=job,
        index=index,
        name=group.name,
        min_member=group.least,
        max_member=group.most,
        gpus_per_member=group.gpus_per_member,
        slice_profile=group.slice_profile,
        slices_per_member=group.slices_per_member,
        shares_per_member=group.shares_per_member,
        gpu_milli=group.gpu_milli,
        gpu_mib=group.gpu_mib,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
    )


def _priority(chosen: PriorityClass | None) -> int:
    if chosen is not None:
        return chosen.value
    default = PriorityClass.objects.filter(is_default=True).first()
    return default.value if default else 0


def _gpus(request: JobRequest) -> int:
    return sum(group.least * group.gpus_per_member for group in request.groups)


def next_public_ids(count: int, letter: str = "j") -> list[str]:
    """New ids: a letter, `-` and six characters that sort in the order of submission."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval('scheduling_job_number') FROM generate_series(1, %s)", [count]
        )
        return [f"{letter}-{spell(number)}" for (number,) in cursor]


def spell(number: int) -> str:
    """`number` in the alphabet of job ids, at least six characters long."""
    text = ""
    while number or len(text) < _DIGITS:
        number, digit = divmod(number, len(_ALPHABET))
        text = _ALPHABET[digit] + text
    return text
