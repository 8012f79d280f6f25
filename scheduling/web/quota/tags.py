"""Sentences about requests for quota, for templates: `{% load quotas %}`."""

from datetime import date, datetime, timedelta

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.core.templatetags.units import duration
from scheduling.reports.quota_record import Burn
from scheduling.web.quota.forms import label_of
from tenants.models import QuotaRequest, QuotaRequestEvent
from tenants.services.grant_clock import GRACE_DAYS
from tenants.states import FOR_OPERATORS, RequestState

register = template.Library()

# What needs no numbers.
SENTENCES = {
    RequestState.DRAFT: gettext_lazy(
        "A draft that operators do not see yet. Submit it when it is complete."
    ),
    RequestState.NEEDS_INFO: gettext_lazy("An operator has asked something; answer it."),
    RequestState.COUNTERED: gettext_lazy(
        "An operator offers other terms. Take them, or turn them down."
    ),
    RequestState.WITHDRAWN: gettext_lazy("Withdrawn before it was granted."),
    RequestState.REJECTED: gettext_lazy("Rejected; the reason stands in its history."),
    RequestState.DECLINED: gettext_lazy("The offer was turned down. Nothing was granted."),
    RequestState.REVOKED: gettext_lazy(
        "Taken back by an operator; the reason stands in its history."
    ),
    RequestState.CLOSED: gettext_lazy("Closed. It gives nothing any more."),
}


@register.filter
def day(value: date | None) -> str:
    """A day as 2026-03-31: the same in every language, and as the forms take it."""
    return value.isoformat() if value else "–"


@register.filter
def wanted(request: QuotaRequest) -> str:
    """The GPU model that is asked for."""
    return label_of(request.flavor, request.gpu_memory_mib)


@register.simple_tag
def request_sentence(request: QuotaRequest, usual_wait: float | None = None) -> str:
    """The one sentence of a request: where it stands, and what comes next."""
    state = RequestState(request.state)
    if state in FOR_OPERATORS:
        return _waiting(usual_wait)
    return str(SENTENCES[state]) if state in SENTENCES else _granted(request)


def _waiting(usual_wait: float | None) -> str:
    said = _("It waits for an operator.")
    if usual_wait is None:
        return said
    half = _("Half of all requests are decided within %(time)s.") % {"time": duration(usual_wait)}
    return f"{said} {half}"


def _granted(request: QuotaRequest) -> str:
    grant = request.grant
    shown = {
        "gpus": grant.gpus,
        "flavor": grant.flavor.name,
        "first": day(grant.starts_on),
        "last": day(grant.ends_on),
        "closes": day(grant.ends_on + timedelta(days=GRACE_DAYS)),
    }
    match RequestState(request.state):
        case RequestState.GRACE:
            said = _(
                "Ended on %(last)s: its %(gpus)d %(flavor)s are no longer guaranteed. Until "
                "%(closes)s they may still be borrowed while nobody else needs them."
            )
        case RequestState.EXPIRING if not grant.not_renewable_because:
            said = _("%(gpus)d %(flavor)s are guaranteed until %(last)s. Renew it, or let it end.")
        case RequestState.ACTIVE | RequestState.EXPIRING:
            said = _("%(gpus)d %(flavor)s are guaranteed until %(last)s.")
        case _other:
            said = _("Granted: %(gpus)d %(flavor)s are guaranteed from %(first)s to %(last)s.")
    return said % shown


@register.simple_tag
def burn_sentence(burn: Burn) -> str:
    """How long the GPU-hours of a grant will last."""
    if burn.ends_on is None:
        return _("At the pace so far the hours will not end.")
    shown = {"day": day(burn.ends_on)}
    if burn.days_early <= 0:
        return _("At this pace the hours last to the end of the grant.")
    early = ngettext(
        "At this pace the hours end on %(day)s, %(days)d day early.",
        "At this pace the hours end on %(day)s, %(days)d days early.",
        burn.days_early,
    )
    return early % {**shown, "days": burn.days_early}


@register.simple_tag
def event_numbers(event: QuotaRequestEvent) -> str:
    """What was asked, offered or handed back in one step: "8 H100-SXM, 2026-01-01 – 2026-03-31"."""
    numbers = event.numbers
    if "handed_back" in numbers:
        shown = {"back": numbers["handed_back"], "gpus": numbers["gpus"]}
        return _("%(back)d handed back, %(gpus)d left") % shown
    if "starts_on" not in numbers:
        return ""
    parts = [f"{numbers['gpus']} {numbers['flavor']}".strip()]
    if numbers["borrowing_gpus"]:
        parts.append(_("%(gpus)d to borrow") % {"gpus": numbers["borrowing_gpus"]})
    if numbers["gpu_hours"]:
        parts.append(_("%(hours)d GPU-h") % {"hours": numbers["gpu_hours"]})
    parts.append(f"{numbers['starts_on']} – {numbers['ends_on']}")
    return ", ".join(parts)


@register.simple_tag
def waited(request: QuotaRequest, now: datetime) -> str:
    """How long a request has been on its way, from its submission to `now`."""
    return duration((now - request.submitted_at).total_seconds()) if request.submitted_at else "–"
