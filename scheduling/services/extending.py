"""More time for a running job, where nobody was promised its place meanwhile."""

from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.db import consistent_read
from portal.core.errors import Conflict, Refused
from portal.core.queueing import send_on_commit
from scheduling import snapshots
from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.jobs import RunningJob
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job
from scheduling.services.advice import newest_cycle
from scheduling.services.caps import check_hours
from scheduling.services.checks import LONGEST_WALLTIME
from scheduling.services.delays import Delay, delay_by
from scheduling.services.policies import policy_in_force
from scheduling.services.walltime import note
from scheduling.states import JobState
from tenants.access import require_role
from tenants.models import Role, User
from topology.services.cycle_request import ask_for_cycle

HOUR = 3600
_TRIES = 3  # as long as cycles decide something new meanwhile


class WouldDelay(Refused):
    """Somebody else was promised the place from before the job would end."""

    code = "would_delay"


def extend_job(job: Job, walltime_seconds: int, *, by: User, at: datetime) -> None:
    """Let a running `job` run for `walltime_seconds` in all, counted from its start.

    at: cluster clock. Raises NotAllowed below researcher, Conflict unless it runs, Refused for a
    time that is no longer than what it has or more than its tenant's budget, WouldDelay where a
    reservation, a block or a maintenance window would have to wait for it.
    """
    require_role(by, job.tenant, Role.RESEARCHER)
    for _try in range(_TRIES):
        with consistent_read():
            seen = newest_cycle(job.cluster)
            job.refresh_from_db()
            _check(job, walltime_seconds)
            policy = policy_in_force(job.cluster)
            snapshot = snapshots.take(job.cluster, at=at, policy=policy)
        _check_others(job, walltime_seconds, snapshot, policy, by=by)
        if _extend(job, walltime_seconds, by=by, at=at, seen=seen):
            return
    raise Conflict(_("The cluster is being planned anew all the time; try again in a moment."))


def _check(job: Job, seconds: int) -> None:
    if job.state != JobState.RUNNING:
        raise Conflict(
            _("%(job)s is %(state)s; only a running job is given more time.")
            % {"job": job.public_id, "state": job.get_state_display()}
        )
    if job.walltime_seconds is None:
        raise _refused(_("The job may run without a limit already."))
    if not job.walltime_seconds < seconds <= LONGEST_WALLTIME:
        raise _refused(
            _("Give a longest run above the present %(now)d s, and of at most %(most)d s.")
            % {"now": job.walltime_seconds, "most": LONGEST_WALLTIME},
            limit=LONGEST_WALLTIME,
        )
    check_hours(job, seconds, field="walltime_seconds")


def _refused(message: str, **numbers: int) -> Refused:
    return Refused(message, field="walltime_seconds", numbers=dict(numbers))


def _check_others(job: Job, seconds: int, snapshot: Snapshot, policy: Policy, *, by: User) -> None:
    """Refuse what would cost others a promise, or the tenant more than it has."""
    running = next((own for own in snapshot.running if own.id == job.pk), None)
    if running is None:
        raise _changed()
    _check_budget(running, seconds, snapshot)
    delay = delay_by(running, running.started_at + seconds, snapshot, policy)
    if delay is not None:
        raise _would_delay(delay, by=by)


def _check_budget(running: RunningJob, seconds: int, snapshot: Snapshot) -> None:
    left = int(snapshot.tenant_budget[running.tenant])
    devices = sum(len((*own.gpus, *own.instances, *own.slots)) for own in running.members)
    more = devices * (seconds - (running.walltime_seconds or 0))
    if left != UNLIMITED and more > left and not running.standby:
        said = {"asked": f"{more / HOUR:.1f}", "left": f"{left / HOUR:.1f}"}
        raise _refused(
            _("It may use %(asked)s GPU-hours more then; the budget has %(left)s left.") % said,
            asked=more,
            left=left,
        )


def _would_delay(delay: Delay, *, by: User) -> WouldDelay:
    seen = Job.objects.visible_to(by).filter(pk=delay.job).first()
    at, until = (_instant(second) for second in (delay.at, delay.until))
    numbers = {
        "job": seen.public_id if seen else None,
        "at": at and at.isoformat(),
        "until": until and until.isoformat(),
    }
    return WouldDelay(_why(delay, seen), field="walltime_seconds", numbers=numbers)


def _why(delay: Delay, seen: Job | None) -> str:
    """In words; another tenant's job is not named."""
    said = {
        "at": _text(delay.at),
        "until": _text(delay.until),
        "job": f"{seen.name} ({seen.public_id})" if seen else _("another tenant's job"),
        "block": delay.block,
    }
    if delay.block:
        return _("Its GPUs are promised to %(block)s from %(at)s on.") % said
    if delay.job is None:
        return _("One of its nodes closes for maintenance at %(at)s.") % said
    if delay.until is None:
        return _("Its place is promised to %(job)s from %(at)s on.") % said
    text = _("Its place is promised to %(job)s from %(at)s on; it could start at %(until)s only.")
    return text % said


def _instant(second: int | None) -> datetime | None:
    return None if second is None else datetime.fromtimestamp(second, UTC)


def _text(second: int | None) -> str:
    at = _instant(second)
    return "" if at is None else f"{localtime(at):%Y-%m-%d %H:%M %Z}"


def _changed() -> Conflict:
    return Conflict(_("The job has changed in the meantime; look again."))


@transaction.atomic
def _extend(job: Job, seconds: int, *, by: User, at: datetime, seen: int) -> bool:
    """Write it down; False when a cycle has decided something since the look at the cluster."""
    running = Job.objects.select_for_update().filter(
        pk=job.pk, attempt=job.attempt, state=JobState.RUNNING
    )
    if not running.filter(walltime_seconds=job.walltime_seconds).exists():
        raise _changed()
    if newest_cycle(job.cluster) != seen:
        return False
    running.update(
        walltime_seconds=seconds, warned_at=None, is_end_untold=True, version=F("version") + 1
    )
    note(job, "extended", at=at, actor=by)
    before = {"walltime_seconds": job.walltime_seconds}
    audit.record("extend_job", job, by=by, before=before, after={"walltime_seconds": seconds})
    send_on_commit("scheduling.limit_job", job_id=job.pk, attempt=job.attempt)
    ask_for_cycle(job.cluster_id)
    job.walltime_seconds = seconds
    return True
