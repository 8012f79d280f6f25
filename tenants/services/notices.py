"""What a notification says, and why somebody got it, in the reader's language."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.core.templatetags.units import duration
from tenants.models import Notification, WebhookNotice
from tenants.models.notification import NotificationKind as Kind
from tenants.models.quota_request import QuotaRequestEvent

_SAYS: dict[str, Promise] = {
    Kind.JOB_STARTED: _("%(job)s runs, %(waited)s after it was submitted."),
    Kind.JOB_ENDED: _("%(job)s has ended well."),
    Kind.JOB_FAILED: _("%(job)s has failed."),
    Kind.JOB_PREEMPTED: _("%(job)s was stopped for another job, and waits again."),
    Kind.REQUEST_WAITING: _("%(request)s of %(tenant)s waits for your decision."),
    Kind.REQUEST_DECIDED: _("%(request)s of %(tenant)s: %(step)s."),
    Kind.INVITED: _("%(who)s invites you into %(tenant)s."),
    Kind.QUOTA_ENDING: _("The quota of %(tenant)s by %(request)s: %(step)s."),
    Kind.WEBHOOK_DEAD: _("The webhook %(webhook)s was given up: it did not answer."),
}
_SAYS_BY_STATE: dict[str, Promise] = {
    "timed_out": _("%(job)s was stopped: its longest run was over."),
    "cancelled": _("%(job)s was cancelled by %(who)s."),
}
_WHY: dict[str, Promise] = {
    Kind.REQUEST_DECIDED: _("You asked for this quota."),
    Kind.REQUEST_WAITING: _("You are an operator."),
    Kind.INVITED: _("Your mail address was invited."),
    Kind.QUOTA_ENDING: _("You lead this tenant."),
    Kind.WEBHOOK_DEAD: _("It is yours, or of a tenant that you lead."),
}
_WHY_OF_JOBS = _("You submitted this job.")
_STEPS = dict(QuotaRequestEvent.Action.choices)


@dataclass(frozen=True, slots=True)
class Told:
    """A notification in words."""

    row: Notification | WebhookNotice
    says: str
    why: str


def told(row: Notification | WebhookNotice) -> Told:
    facts = dict(row.facts)
    if "waited_seconds" in facts:
        facts["waited"] = duration(facts["waited_seconds"])
    if "action" in facts:
        facts["step"] = _STEPS.get(facts["action"], facts["action"])
    says = _SAYS_BY_STATE.get(facts.get("state", "")) or _SAYS[row.kind]
    return Told(row, str(says) % facts, str(_WHY.get(row.kind, _WHY_OF_JOBS)))
