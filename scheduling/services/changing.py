"""Asking for something else while a job waits: it keeps its place in the queue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from scheduling.engine.explain import ChangeKind
from scheduling.models import Job, JobFlavor, JobGroup, Level
from scheduling.services.caps import check_hours
from scheduling.services.checks import LONGEST_WALLTIME
from scheduling.services.trying_again import AFRESH
from scheduling.states import JobState
from tenants.access import require_role
from tenants.models import Role, User
from topology.services.cycle_request import ask_for_cycle

SHORTEST_SECONDS = 60
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class JobChange:
    """One thing that a waiting job asks for differently.

    value: members, GPUs of each, seconds of walltime as digits; the name of a flavor to accept as
    well; a level that is enough, empty for none; 1 for preemptible.
    """

    kind: ChangeKind
    value: str


@transaction.atomic
def change_waiting_job(job: Job, change: JobChange, *, by: User, seen: int) -> None:
    """Let a waiting `job` ask for what `change` says; estimates and advice begin anew.

    seen: the job's version that the person looked at. Raises NotAllowed below researcher, Refused
    for a change that asks for no less or cannot be, Conflict if the job has changed meanwhile.
    """
    require_role(by, job.tenant, Role.RESEARCHER)
    locked = Job.objects.select_for_update().get(pk=job.pk)
    if locked.state != JobState.QUEUED or locked.version != seen:
        raise Conflict(_("The job has changed in the meantime; look again."))
    before = _CHANGES[change.kind](locked, change.value)
    Job.objects.filter(pk=job.pk).update(version=F("version") + 1, **AFRESH)
    locked.estimates.filter(attempt=locked.attempt, held__isnull=True).delete()
    after = {"kind": change.kind, "value": change.value}
    audit.record("change_job", locked, by=by, before={"value": before}, after=after)
    ask_for_cycle(job.cluster_id)


def _members(job: Job, value: str) -> int:
    group, members = _one_group(job), _number(value)
    if not members < group.min_member:
        raise _not_less()
    was_fixed = group.min_member == group.max_member
    most = members if was_fixed else group.max_member
    JobGroup.objects.filter(pk=group.pk).update(min_member=members, max_member=most)
    Job.objects.filter(pk=job.pk, min_total__isnull=False).update(min_total=members)
    return int(group.min_member)


def _gpus(job: Job, value: str) -> int:
    group, gpus = _one_group(job), _number(value)
    if not gpus < group.gpus_per_member:
        raise _not_less()
    JobGroup.objects.filter(pk=group.pk).update(gpus_per_member=gpus)
    return int(group.gpus_per_member)


def _flavor(job: Job, value: str) -> list[str]:
    accepted = list(job.accepted.order_by("rank").select_related("flavor"))
    flavor = job.cluster.flavors.filter(name=value).first()
    if flavor is None or not accepted or flavor.pk in {own.flavor_id for own in accepted}:
        raise Refused(_("That kind of GPU is no addition."), field="value")
    JobFlavor.objects.create(job=job, flavor=flavor, rank=accepted[-1].rank + 1)
    return [own.flavor.name for own in accepted]


def _level(job: Job, value: str) -> str:
    wider = (
        list(Level)[list(Level).index(Level(job.required_level)) + 1 :]
        if job.required_level
        else ()
    )
    if not job.required_level or (value and value not in wider):
        raise Refused(_("That is no wider than what the job asks for."), field="value")
    patience = {} if value else {"patience_seconds": None}
    Job.objects.filter(pk=job.pk).update(required_level=value, **patience)
    return job.required_level


def _walltime(job: Job, value: str) -> int | None:
    seconds, present = _number(value), job.walltime_seconds
    most = LONGEST_WALLTIME if present is None else present - 1
    if not SHORTEST_SECONDS <= seconds <= most:
        raise _not_less()
    check_hours(job, seconds, field="value")
    Job.objects.filter(pk=job.pk).update(walltime_seconds=seconds)
    return present


def _preemptible(job: Job, value: str) -> bool:
    if value != "1" or job.is_preemptible:
        raise Refused(_("It may be stopped for others already."), field="value")
    Job.objects.filter(pk=job.pk).update(is_preemptible=True)
    return False


_CHANGES: dict[ChangeKind, Callable[[Job, str], Any]] = {
    ChangeKind.MEMBERS: _members,
    ChangeKind.GPUS_PER_MEMBER: _gpus,
    ChangeKind.FLAVOR: _flavor,
    ChangeKind.LEVEL: _level,
    ChangeKind.WALLTIME: _walltime,
    ChangeKind.PREEMPTIBLE: _preemptible,
}


def _one_group(job: Job) -> JobGroup:
    groups = list(job.groups.all())
    if len(groups) != 1:
        raise Refused(_("It has several groups; submit it anew instead."), field="value")
    return groups[0]


def _number(value: str) -> int:
    """A whole number above 0. Refused for anything else."""
    if not value.isdecimal() or len(value) > MOST_DIGITS or int(value) < 1:
        raise Refused(_("That is no number of them."), field="value")
    return int(value)


def _not_less() -> Refused:
    return Refused(_("That is no less than what the job asks for."), field="value")
