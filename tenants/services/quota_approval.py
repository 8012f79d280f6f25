"""From a decision to a grant: is there room, and from when does it count."""

from collections.abc import Sequence
from datetime import date, datetime

from django.utils.translation import gettext as _

from portal.core.clock import day_in
from portal.core.errors import Refused
from tenants.models import QuotaGrant, QuotaRequest, QuotaRequestEvent, StarterRule
from tenants.services.grants import derive_quota, lock_flavor, lock_flavors
from tenants.services.quota_moves import Action, Step, move, numbers_of
from tenants.snapshots import read_calendar, read_calendars
from tenants.states import IN_FORCE, RequestState
from topology.models import ResourceFlavor


class OverCommitted(Refused):
    """More would be guaranteed than there is. numbers: free GPUs on the tightest day, and asked."""

    code = "over_committed"


def grant_now(
    request: QuotaRequest, grant: QuotaGrant, step: Step, *, overcommit: bool = False
) -> None:
    """Approve `request`, which the caller has locked, on the terms of `grant`.

    It is in force at once when its first day has come, else scheduled. Raises OverCommitted unless
    `overcommit`, IllegalTransition.
    """
    grant.flavor = lock_flavors_of(request, grant)  # two approvals cannot both take the last GPU
    today = day_in(request.cluster, wall=step.at)
    if grant.ends_on < today:
        raise Refused(_("Its last day is over; offer other days."), field="ends_on")
    if not overcommit:
        check_room(request, grant, today=today)
    grant.request = request
    grant.save()
    step = Step(
        action=step.action, at=step.at, by=step.by, note=step.note, numbers=numbers_of(grant)
    )
    move(request, RequestState.APPROVED, step)
    if grant.starts_on <= today:
        start_grant(request, grant, step)
    else:
        move(request, RequestState.SCHEDULED, Step(action=Action.SCHEDULE, at=step.at))


def check_room(request: QuotaRequest, grant: QuotaGrant, *, today: date) -> None:
    """Raise OverCommitted unless the GPUs of `grant` are free on every day of it still to come."""
    calendar = read_calendar(grant.flavor, without=request.replaces_id)
    day = calendar.tightest(max(grant.starts_on, today), max(grant.ends_on, today))
    free = calendar.free_on(day)
    if grant.gpus > free:
        shown = {"free": free, "asked": grant.gpus, "day": day.isoformat()}
        shown["flavor"] = grant.flavor.name
        raise OverCommitted(
            _("On %(day)s %(free)d %(flavor)s are left to guarantee; this takes %(asked)d.")
            % shown,
            field="gpus",
            numbers={"free": free, "asked": grant.gpus},
        )


def check_room_of_all(grants: Sequence[QuotaGrant], *, wall: datetime) -> None:
    """Raise OverCommitted where more is guaranteed than there is on a day of one of `grants`.

    They count already: the caller has approved them in this transaction.
    """
    calendars = read_calendars(list({grant.flavor_id: grant.flavor for grant in grants}.values()))
    for grant in grants:
        calendar = calendars[grant.flavor_id]
        today = day_in(grant.flavor.cluster, wall=wall)
        day = calendar.tightest(max(grant.starts_on, today), max(grant.ends_on, today))
        short = -calendar.free_on(day)
        if short > 0:
            shown = {"short": short, "day": day.isoformat(), "flavor": grant.flavor.name}
            raise OverCommitted(
                _("Together they do not fit: on %(day)s %(short)d %(flavor)s are too few.") % shown,
                numbers={"short": short},
            )


def start_grant(request: QuotaRequest, grant: QuotaGrant, step: Step) -> None:
    """Put an approved `grant` in force; the one that it replaces ends in the same instant.

    The caller holds the request, and its flavors through `lock_flavors_of`.
    """
    move(request, RequestState.ACTIVE, Step(action=Action.START, at=step.at))
    reason = f"{request.public_id}: start"
    old = _replaced(request)
    if old is not None:
        note = _("Replaced by %(request)s.") % {"request": request.public_id}
        move(old, RequestState.CLOSED, Step(action=Action.REPLACE, at=step.at, note=note))
        if old.grant.flavor_id != grant.flavor_id:
            derive_quota(request.tenant, old.grant.flavor, by=step.by, reason=reason)
    derive_quota(request.tenant, grant.flavor, by=step.by, reason=reason)


def lock_flavors_of(request: QuotaRequest, grant: QuotaGrant) -> ResourceFlavor:
    """The flavor of `grant`, held, and with it that of the grant that `request` replaces."""
    if request.replaces_id is None:
        return lock_flavor(grant.flavor_id)
    before = QuotaGrant.objects.get(request=request.replaces_id).flavor_id
    return lock_flavors(grant.flavor_id, before)[grant.flavor_id]


def lock_flavors_of_all(requests: Sequence[QuotaRequest]) -> None:
    """Hold every flavor that `requests`, and those that they replace, are of."""
    replaced = QuotaGrant.objects.filter(request__in=[each.replaces_id for each in requests])
    asked = {each.flavor_id for each in requests if each.flavor_id is not None}
    lock_flavors(*asked, *replaced.values_list("flavor_id", flat=True))


def _replaced(request: QuotaRequest) -> QuotaRequest | None:
    """The grant to end, held with `request`; None without one, or when it has ended by itself."""
    if request.replaces_id is None:
        return None
    old = QuotaRequest.objects.select_related("tenant", "cluster").get(pk=request.replaces_id)
    return old if old.state in IN_FORCE | {RequestState.SCHEDULED} else None


def starter_rule_for(request: QuotaRequest) -> StarterRule | None:
    """The rule that approves `request` at once; None when an operator has to look.

    Once per tenant and flavor, never for a change, and only with room on every day.
    """
    if request.flavor_id is None or request.replaces_id is not None:
        return None
    rule = StarterRule.objects.select_related("flavor").filter(flavor=request.flavor_id).first()
    if rule is None or not _is_within(request, rule) or _had_a_starter(request):
        return None
    calendar = read_calendar(lock_flavor(rule.flavor_id))
    day = calendar.tightest(request.starts_on, request.ends_on)
    return rule if request.gpus <= calendar.free_on(day) else None


def _is_within(request: QuotaRequest, rule: StarterRule) -> bool:
    hours, most = request.gpu_hours, rule.most_gpu_hours
    return (
        request.gpus + request.borrowing_gpus <= rule.most_gpus
        and request.days <= rule.most_days
        and (most is None or (hours is not None and hours <= most))
    )


def _had_a_starter(request: QuotaRequest) -> bool:
    return QuotaRequestEvent.objects.filter(
        request__tenant=request.tenant_id,
        request__flavor=request.flavor_id,
        action=QuotaRequestEvent.Action.APPROVE_BY_RULE,
    ).exists()
