"""The hold flag: a waiting job that is on hold keeps its place and is not started."""

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from scheduling.models import Job
from scheduling.services.trying_again import AFRESH
from scheduling.states import JobState
from tenants.access import require_role
from tenants.models import Role, User
from topology.services.cycle_request import ask_for_cycle

LONGEST_WHY = 200


@transaction.atomic
def hold_job(job: Job, *, by: User, why: str = "") -> None:
    """Keep a waiting job from being started until somebody releases it.

    Raises NotAllowed below researcher, Conflict unless it waits.
    """
    if len(why) > LONGEST_WHY or "\0" in why:
        raise Refused(_("Say why in at most %d characters.") % LONGEST_WHY, field="because")
    _set(job, by=by, is_held=True, held_because=why)


@transaction.atomic
def release_job(job: Job, *, by: User) -> None:
    """Let a job that is on hold be started, at once if room allows. Raises as `hold_job` does."""
    _set(job, by=by, is_held=False, held_because="")


def _set(job: Job, *, by: User, is_held: bool, held_because: str) -> None:
    require_role(by, job.tenant, Role.RESEARCHER)
    waiting = Job.objects.filter(pk=job.pk, state=JobState.QUEUED)
    flag = {"is_held": is_held, "held_because": held_because}
    again = {} if is_held else AFRESH
    if not waiting.update(version=F("version") + 1, **flag, **again):
        raise Conflict(
            _("%(job)s does not wait; only a waiting job is put on hold or released.")
            % {"job": job.public_id}
        )
    before = {"is_held": job.is_held, "held_because": job.held_because}
    audit.record("hold_job" if is_held else "release_job", job, by=by, before=before, after=flag)
    ask_for_cycle(job.cluster_id)
