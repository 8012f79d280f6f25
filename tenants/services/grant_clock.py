"""What time does to grants: start, reminders of the end, grace, close.

Level, not edge: where a grant should be follows from its dates and the day alone, so a beat that
came twice does nothing, and one that never came is made up for by the next.
"""

from datetime import date, datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core.clock import day_in
from tenants.models import QuotaGrant, QuotaRequest
from tenants.services.grants import derive_quota
from tenants.services.quota_approval import lock_flavors_of, start_grant
from tenants.services.quota_moves import Action, Step, lock_request, move, note
from tenants.states import IN_FORCE, RequestState

LADDER = (30, 14, 7, 1)  # days before the end on which the tenant is reminded
GRACE_DAYS = 14
_MOVED = IN_FORCE | {RequestState.SCHEDULED}


def advance_grants(*, at: datetime) -> int:
    """Bring every grant to where its dates say it is; how many moved. at: wall clock."""
    requests = QuotaRequest.objects.filter(state__in=_MOVED).select_related("cluster", "grant")
    due = [request for request in requests.order_by("pk") if _is_due(request, at)]
    return sum(advance_grant(request, at=at) for request in due)


@transaction.atomic
def advance_grant(request: QuotaRequest, *, at: datetime) -> bool:
    """Bring one grant to where its dates say it is; True when that changed it."""
    locked = lock_request(request)
    if locked.state not in _MOVED:  # somebody ended it meanwhile
        return False
    grant = QuotaGrant.objects.select_related("flavor").get(request=locked)
    return _advance(locked, grant, at)


def due_state(grant: QuotaGrant, today: date) -> RequestState:
    """The state of an approved grant on that day, as nobody ended it early."""
    if today < grant.starts_on:
        return RequestState.SCHEDULED
    if today > grant.ends_on + timedelta(days=GRACE_DAYS):
        return RequestState.CLOSED
    if today > grant.ends_on:
        return RequestState.GRACE
    return RequestState.EXPIRING if rung_of(grant, today) else RequestState.ACTIVE


def rung_of(grant: QuotaGrant, today: date) -> int | None:
    """The reminder that is due: days before the end; None while none is.

    A grant has no reminder from before its first day.
    """
    left = (grant.ends_on - today).days
    reached = [days for days in LADDER if left <= days < grant.days]
    return min(reached, default=None)


def _is_due(request: QuotaRequest, at: datetime) -> bool:
    today = day_in(request.cluster, wall=at)
    due = due_state(request.grant, today)
    if due == RequestState.EXPIRING and due == request.state:
        return rung_of(request.grant, today) != request.grant.reminded_days
    return due not in {request.state, RequestState.SCHEDULED}


def _advance(request: QuotaRequest, grant: QuotaGrant, at: datetime) -> bool:
    before = request.version
    today = day_in(request.cluster, wall=at)
    due = due_state(grant, today)
    grant.flavor = lock_flavors_of(request, grant)
    if request.state == RequestState.SCHEDULED and due != RequestState.SCHEDULED:
        start_grant(request, grant, Step(action=Action.START, at=at))
    if due == RequestState.EXPIRING:
        _remind(request, grant, today, at)
    elif due in {RequestState.GRACE, RequestState.CLOSED} and due != request.state:
        action = Action.END if due == RequestState.GRACE else Action.CLOSE
        move(request, due, Step(action=action, at=at))
        derive_quota(
            request.tenant, grant.flavor, by=None, reason=f"{request.public_id}: {action.label}"
        )
    return request.version != before


def _remind(request: QuotaRequest, grant: QuotaGrant, today: date, at: datetime) -> None:
    """One reminder for each rung; rungs that nobody climbed are left out."""
    rung = rung_of(grant, today)
    if grant.reminded_days == rung and request.state == RequestState.EXPIRING:
        return
    words = _("Ends on %(day)s.") % {"day": grant.ends_on.isoformat()}
    step = Step(action=Action.REMIND, at=at, note=words, numbers={"days": rung})
    grant.reminded_days = rung
    grant.save(update_fields=["reminded_days"])
    if request.state == RequestState.EXPIRING:
        note(request, step)
    else:
        move(request, RequestState.EXPIRING, step)
