from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, IllegalTransition
from portal.core.queueing import send_on_commit
from scheduling.models import Job, JobEvent
from scheduling.states import DISPLACEABLE, FINAL, TRANSITIONS, JobState
from tenants.access import require_role
from tenants.models import Role, User
from topology.services.cycle_request import ask_for_cycle

_SEEN = ("pk", "state", "attempt")
WITHOUT_MEMBERS = frozenset({JobState.QUEUED, JobState.SUSPENDED})


@transaction.atomic
def move(
    job: Job,
    to: JobState,
    *,
    at: datetime,
    reason: str = "",
    by: User | None = None,
    **changes: Any,
) -> bool:
    """Move `job` to `to`, unless another worker moved it first; True when this call won.

    The WHERE clause is the lock: the row changes only if it is still where we saw it. `changes`
    are further columns that change with the state. at: cluster clock.
    """
    if to not in TRANSITIONS[JobState(job.state)]:
        raise IllegalTransition(
            _("%(job)s is %(state)s and cannot become %(to)s.")
            % {"job": job.public_id, "state": job.get_state_display(), "to": to.label}
        )
    where = Job.objects.filter(pk=job.pk, state=job.state, attempt=job.attempt)
    won = where.update(state=to, version=F("version") + 1, **changes)
    if won:
        JobEvent.objects.create(
            job=job, from_state=job.state, to_state=to, reason=reason[:300], actor=by, at=at
        )
        job.state = to
        for name, value in changes.items():
            setattr(job, name, value)
    return bool(won)


@transaction.atomic
def move_all(
    jobs: Sequence[Job],
    to: JobState,
    *,
    at: datetime,
    reason: str = "",
    by: User | None = None,
    **changes: Any,
) -> list[Job]:
    """Those of `jobs` that this call moved to `to`, and their lines, in few queries; see `move`.

    A job that somebody moved first is left out. `changes` may be expressions.
    """
    where = Job.objects.filter(pk__in=[job.pk for job in jobs]).order_by("pk").select_for_update()
    there = {pk: (state, attempt) for pk, state, attempt in where.values_list(*_SEEN)}
    won = [job for job in jobs if there.get(job.pk) == (job.state, job.attempt)]
    if any(to not in TRANSITIONS[JobState(job.state)] for job in won):
        raise IllegalTransition(_("Not all of these jobs can become %s.") % to.label)
    Job.objects.filter(pk__in=[job.pk for job in won]).update(
        state=to, version=F("version") + 1, **changes
    )
    JobEvent.objects.bulk_create(
        JobEvent(job=job, from_state=job.state, to_state=to, reason=reason[:300], actor=by, at=at)
        for job in won
    )
    for job in won:
        job.state = to
    return won


@transaction.atomic
def stop(
    job: Job,
    *,
    towards: JobState,
    at: datetime,
    reason: str,
    by: User | None = None,
    **changes: Any,
) -> bool:
    """Have a started `job` stopped; it becomes `towards` when its members are gone."""
    changes["stopping_to"] = towards
    won = move(job, JobState.STOPPING, at=at, reason=reason, by=by, **changes)
    if won:
        send_on_commit("scheduling.stop_job", job_id=job.pk)
    return won


@transaction.atomic
def cancel_all(jobs: Sequence[Job], *, by: User, at: datetime) -> None:
    """End all of `jobs` for good, as `cancel_job` would each, in few queries and without a line.

    jobs: locked by the caller, of one cluster; none has ended. at: cluster clock.
    """
    waiting = [job for job in jobs if job.state in WITHOUT_MEMBERS]
    stopping = [job for job in jobs if job.state == JobState.STOPPING]
    started = [job for job in jobs if job.state in DISPLACEABLE]
    said: dict[str, Any] = {"at": at, "reason": "cancelled", "by": by}
    move_all(waiting, JobState.CANCELLED, ended_at=at, **said)
    for job in move_all(started, JobState.STOPPING, stopping_to=JobState.CANCELLED, **said):
        send_on_commit("scheduling.stop_job", job_id=job.pk)
    _go_to_their_end(Job.objects.filter(pk__in=[job.pk for job in stopping]))


@transaction.atomic
def cancel_job(job: Job, *, by: User, at: datetime) -> None:
    """End `job` for good: at once while it waits, else as soon as its members are gone.

    Raises NotAllowed below researcher, Conflict when it has ended or somebody moved it first.
    """
    require_role(by, job.tenant, Role.RESEARCHER)
    if job.state in FINAL:
        raise Conflict(
            _("%(job)s has already ended: %(state)s.")
            % {"job": job.public_id, "state": job.get_state_display()}
        )
    before = job.state
    if not _cancel(job, by=by, at=at):
        raise Conflict(
            _("%(job)s has changed in the meantime; look again.") % {"job": job.public_id}
        )
    audit.record("cancel_job", job, by=by, before={"state": before})


def _cancel(job: Job, *, by: User, at: datetime) -> bool:
    if job.state in WITHOUT_MEMBERS:
        return _cancel_waiting(job, by=by, at=at)
    if job.state == JobState.STOPPING:
        return _cancel_stopping(job)
    return stop(job, towards=JobState.CANCELLED, at=at, reason="cancelled", by=by)


def _cancel_waiting(job: Job, *, by: User, at: datetime) -> bool:
    won = move(job, JobState.CANCELLED, at=at, reason="cancelled", by=by, ended_at=at)
    if won:
        ask_for_cycle(job.cluster_id)
    return won


def _cancel_stopping(job: Job) -> bool:
    return bool(_go_to_their_end(Job.objects.filter(pk=job.pk)))


def _go_to_their_end(jobs: QuerySet[Job]) -> int:
    """Of `jobs`, those on their way back to the queue, or out of time, go to their end instead."""
    where = jobs.filter(state=JobState.STOPPING)
    return where.update(stopping_to=JobState.CANCELLED, version=F("version") + 1)
