"""Steps of jobs, told to their owners.

Level, not edge: every step carries whether it was told, so none is lost and none told twice.
"""

from collections.abc import Iterator
from datetime import datetime

from django.db import transaction
from django.urls import reverse

from scheduling.models import JobEvent
from scheduling.states import JobState
from tenants.models import NotificationKind
from tenants.services.notifications import Notice, notify

BATCH = 500
LONG_WAIT = 600  # seconds; a start after less is worth no mail
_KINDS = {
    JobState.RUNNING: NotificationKind.JOB_STARTED,
    JobState.SUCCEEDED: NotificationKind.JOB_ENDED,
    JobState.FAILED: NotificationKind.JOB_FAILED,
    JobState.TIMED_OUT: NotificationKind.JOB_FAILED,
}
_PREEMPTED = "preempted for "


@transaction.atomic
def tell_of_jobs(*, at: datetime) -> int:
    """Tell of the steps that nobody was told of, a batch at most; how many. at: wall clock."""
    events = JobEvent.objects.filter(is_told=False).order_by("pk")
    fresh = list(events.select_related("job__owner", "actor")[:BATCH])
    notify([notice for event in fresh for notice in _notices(event)], at=at)
    JobEvent.objects.filter(pk__in=[event.pk for event in fresh]).update(is_told=True)
    return len(fresh)


def _notices(event: JobEvent) -> Iterator[Notice]:
    kind, job = _kind(event), event.job
    if kind is None:
        return
    waited = (event.at - job.submitted_at).total_seconds()
    is_start = kind == NotificationKind.JOB_STARTED
    yield Notice(
        user=job.owner,
        kind=kind,
        key=f"job-event:{event.pk}",
        link=reverse("job", args=[job.public_id]),
        happened_at=event.at,
        tenant_id=job.tenant_id,
        facts={
            "job": job.name,
            "state": event.to_state,
            "who": str(event.actor or ""),
            **({"waited_seconds": waited} if is_start else {}),
        },
        may_mail=not is_start or waited >= LONG_WAIT,
    )


def _kind(event: JobEvent) -> NotificationKind | None:
    """What the owner of the job is told of the step; None where that is nothing."""
    if event.to_state == JobState.STOPPING:
        is_preempted = event.reason.startswith(_PREEMPTED)
        return NotificationKind.JOB_PREEMPTED if is_preempted else None
    if event.to_state == JobState.CANCELLED:
        is_others = event.actor_id is not None and event.actor_id != event.job.owner_id
        return NotificationKind.JOB_ENDED if is_others else None
    return _KINDS.get(JobState(event.to_state))
