"""What operators do with requests: ask, offer less, approve, reject, and take a grant back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core.errors import Conflict, PortalError, Refused
from tenants.access import require_operator
from tenants.models import QuotaGrant, QuotaRequest, User
from tenants.services.days import check_days
from tenants.services.grants import derive_quota, lock_flavor
from tenants.services.quota_approval import (
    check_room_of_all,
    grant_now,
    lock_flavors_of_all,
)
from tenants.services.quota_moves import (
    Action,
    Step,
    lock_request,
    lock_requests,
    move,
    numbers_of,
)
from tenants.states import FOR_OPERATORS, RequestState
from topology.models import ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What an operator gives: of one flavor, whatever was asked for."""

    flavor: ResourceFlavor
    gpus: int
    borrowing_gpus: int = 0
    gpu_hours: int | None = None
    starts_on: date
    ends_on: date
    not_renewable_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Who decides, when (wall clock), on which version of the request, and with which words."""

    by: User
    at: datetime
    seen: int | None = None
    note: str = ""


@transaction.atomic
def ask_question(request: QuotaRequest, decider: Decider) -> None:
    """Ask the tenant something first. Raises NotAllowed, Refused without words, Conflict."""
    locked = _locked(request, decider)
    _need_words(decider, _("Write the question."))
    move(locked, RequestState.NEEDS_INFO, _step(Action.ASK, decider))


@transaction.atomic
def counter_offer(request: QuotaRequest, offer: Offer, decider: Decider) -> None:
    """Offer something else, which the tenant takes or leaves. Raises NotAllowed, Refused,
    Conflict.
    """
    locked = _locked(request, decider)
    grant = _grant_of(locked, offer)
    if numbers_of(grant) == numbers_of(locked):
        raise Refused(_("This is what was asked for: approve it instead."), field="gpus")
    grant.save()
    numbers = numbers_of(grant)
    step = Step(
        action=Action.COUNTER, at=decider.at, by=decider.by, note=decider.note, numbers=numbers
    )
    move(locked, RequestState.COUNTERED, step)


@transaction.atomic
def approve_request(
    request: QuotaRequest, offer: Offer, decider: Decider, *, overcommit: bool = False
) -> None:
    """Grant what was asked for, of the flavor that `offer` names.

    overcommit: although more is guaranteed then than there is, which needs words. Raises
    NotAllowed, Refused where it is not what was asked for, OverCommitted, Conflict.
    """
    locked = _locked(request, decider)
    grant = _grant_of(locked, offer)
    _check_as_asked(locked, grant)
    if overcommit:
        _need_words(decider, _("Say why more may be guaranteed than there is."))
    grant_now(locked, grant, _step(Action.APPROVE, decider), overcommit=overcommit)


@transaction.atomic
def approve_together(
    chosen: Sequence[tuple[QuotaRequest, int]], *, by: User, at: datetime, note: str = ""
) -> None:
    """Grant all of `chosen` as asked, or none of them: together they must fit on every day.

    chosen: requests, each with the version that was looked at. at: wall clock. Raises NotAllowed,
    Refused where the kind of GPU is left to the operator, OverCommitted, Conflict.
    """
    require_operator(by)
    requests = [request for request, _seen in chosen]
    lock_requests(requests)  # all at once and in order: two who choose the same do not cross
    lock_flavors_of_all(requests)
    grants = []
    for request, seen in sorted(chosen, key=lambda pair: pair[0].pk):
        decider = Decider(by=by, at=at, seen=seen, note=note)
        locked = _locked(request, decider)
        grant = _grant_of(locked, _as_asked(locked))
        # Each alone may fit where all do not; so the sum is looked at, once all of them count.
        grant_now(locked, grant, _step(Action.APPROVE, decider), overcommit=True)
        grants.append(grant)
    check_room_of_all(grants, wall=at)


def foresee_together(
    chosen: Sequence[tuple[QuotaRequest, int]], *, by: User, at: datetime
) -> PortalError | None:
    """What `approve_together` would be refused for now; None where it would be done."""
    try:
        with transaction.atomic():
            approve_together(chosen, by=by, at=at)
            transaction.set_rollback(True)
    except (Conflict, Refused) as refusal:
        return refusal
    return None


@transaction.atomic
def reject_request(request: QuotaRequest, decider: Decider) -> None:
    """Say no, and why. Raises NotAllowed, Refused without words, Conflict."""
    require_operator(decider.by)
    locked = lock_request(request, seen=decider.seen)
    _need_words(decider, _("Say why: the tenant reads it."))
    move(locked, RequestState.REJECTED, _step(Action.REJECT, decider))


@transaction.atomic
def revoke_grant(request: QuotaRequest, decider: Decider) -> None:
    """Take a grant back before its end, and say why; what runs becomes reclaimable.

    Raises NotAllowed, Refused without words, Conflict.
    """
    require_operator(decider.by)
    locked = lock_request(request, seen=decider.seen)
    _need_words(decider, _("Say why: the tenant reads it."))
    move(locked, RequestState.REVOKED, _step(Action.REVOKE, decider))
    flavor = lock_flavor(locked.grant.flavor_id)
    derive_quota(locked.tenant, flavor, by=decider.by, reason=f"{locked.public_id}: revoke")


def _locked(request: QuotaRequest, decider: Decider) -> QuotaRequest:
    """The request, held, when it is an operator's turn."""
    require_operator(decider.by)
    locked = lock_request(request, seen=decider.seen)
    if locked.state not in FOR_OPERATORS:
        raise Conflict(
            _("%(request)s waits for no decision: %(state)s.")
            % {"request": locked.public_id, "state": locked.get_state_display()}
        )
    return locked


def _as_asked(request: QuotaRequest) -> Offer:
    if request.flavor is None:
        raise Refused(
            _("%(request)s leaves the kind of GPU open: decide it on its own page.")
            % {"request": request.public_id}
        )
    return Offer(
        flavor=request.flavor,
        gpus=request.gpus,
        borrowing_gpus=request.borrowing_gpus,
        gpu_hours=request.gpu_hours,
        starts_on=request.starts_on,
        ends_on=request.ends_on,
    )


def _grant_of(request: QuotaRequest, offer: Offer) -> QuotaGrant:
    """The grant that `offer` would become; not stored."""
    if offer.flavor.cluster_id != request.cluster_id:
        raise Refused(_("That kind of GPU belongs to another cluster."), field="flavor")
    check_days(offer.starts_on, offer.ends_on)
    if not offer.gpus and not offer.borrowing_gpus:
        raise Refused(_("Offer at least one GPU, or reject."), field="gpus")
    kept = QuotaGrant.objects.filter(request=request).first()
    grant = kept or QuotaGrant(request=request)
    for name in Offer.__slots__:
        setattr(grant, name, getattr(offer, name))
    return grant


def _check_as_asked(request: QuotaRequest, grant: QuotaGrant) -> None:
    """Whoever gives something else makes a counter-offer: nobody is bound to what they did not
    ask for. The flavor is the operator's to choose where any would do.
    """
    asked, given = numbers_of(request), numbers_of(grant)
    if request.flavor_id is None:
        asked["flavor"] = given["flavor"]
        memory = grant.flavor.gpu_memory_mib or 0
        if memory < request.gpu_memory_mib:
            raise Refused(_("Its GPUs have less memory than asked for."), field="flavor")
    if asked != given:
        raise Refused(_("This is not what was asked for: make a counter-offer."), field="gpus")


def _step(action: Action, decider: Decider) -> Step:
    return Step(action=action, at=decider.at, by=decider.by, note=decider.note)


def _need_words(decider: Decider, message: str) -> None:
    if not decider.note.strip():
        raise Refused(message, field="note")
