"""What a tenant does with its requests: write, submit, answer, accept, hand back, withdraw."""

from dataclasses import dataclass
from datetime import date, datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.core.clock import day_in
from portal.core.errors import Conflict, Refused
from tenants.access import require_role
from tenants.models import Quota, QuotaGrant, QuotaRequest, Role, Tenant, User
from tenants.services.days import check_days
from tenants.services.grants import derive_quota, lock_flavor
from tenants.services.quota_approval import grant_now, starter_rule_for
from tenants.services.quota_moves import Action, Step, lock_request, move, note, numbers_of
from tenants.states import GUARANTEED, IN_FORCE, RequestState
from topology.models import Cluster, ResourceFlavor

SHORTEST_JUSTIFICATION = 40  # characters
LONGEST_DAYS = 3 * 366


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWish:
    """What is asked for. Without a flavor any will do that has `gpu_memory_mib` a GPU."""

    purpose: QuotaRequest.Purpose
    cluster: Cluster
    flavor: ResourceFlavor | None = None
    gpu_memory_mib: int = 0
    gpus: int
    borrowing_gpus: int = 0
    gpu_hours: int | None = None
    starts_on: date
    ends_on: date
    justification: str = ""
    plan_url: str = ""
    replaces: QuotaRequest | None = None
    outcome: str = ""
    form_key: str = ""


@transaction.atomic
def draft_request(wish: QuotaWish, *, tenant: Tenant, by: User, at: datetime) -> QuotaRequest:
    """A request that nobody has to answer yet; the same form again gets the same request.

    at: wall clock. Raises NotAllowed below lead, Refused, Conflict when a request to replace the
    same grant is under way already.
    """
    require_role(by, tenant, Role.LEAD)
    twin = _twin(wish, tenant)
    if twin is not None:
        return twin
    _check(wish)
    _check_replaced(wish, tenant)
    try:
        with transaction.atomic():
            request = QuotaRequest.objects.create(tenant=tenant, requested_by=by, **_columns(wish))
    except IntegrityError as error:
        twin = _twin(wish, tenant)
        if twin is not None:
            return twin
        message = _("A change of this grant is under way already.")
        raise Conflict(message, field="replaces") from error
    note(request, Step(action=Action.CREATE, at=at, by=by, numbers=numbers_of(request)))
    return request


@transaction.atomic
def change_draft(
    request: QuotaRequest, wish: QuotaWish, *, by: User, seen: int | None = None
) -> None:
    """Write a draft anew. Raises NotAllowed, Refused, Conflict when it is no draft any more."""
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    if locked.state != RequestState.DRAFT:
        raise Conflict(_("%(request)s is no draft any more.") % {"request": locked.public_id})
    _check(wish)
    kept = {"replaces": locked.replaces, "form_key": locked.form_key}
    columns = _columns(wish) | kept | {"version": locked.version + 1}
    QuotaRequest.objects.filter(pk=locked.pk).update(**columns)


@transaction.atomic
def submit_request(
    request: QuotaRequest, *, by: User, at: datetime, seen: int | None = None
) -> QuotaRequest:
    """Send a draft to the operators; a small one that a starter rule covers is approved at once.

    at: wall clock. Raises NotAllowed below lead, Refused for what is missing, Conflict.
    """
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    _check_complete(locked, today=day_in(locked.cluster, wall=at))
    step = Step(action=Action.SUBMIT, at=at, by=by, numbers=numbers_of(locked))
    move(locked, RequestState.SUBMITTED, step, submitted_at=at)
    rule = starter_rule_for(locked)
    if rule is not None:
        step = Step(action=Action.APPROVE_BY_RULE, at=at, note=str(rule))
        grant_now(locked, QuotaGrant(**terms_of(locked), flavor=rule.flavor), step)
    return locked


@transaction.atomic
def file_request(
    wish: QuotaWish, *, tenant: Tenant, by: User, at: datetime, draft: QuotaRequest | None = None
) -> QuotaRequest:
    """Write and submit in one: both are in the database or neither. Raises as both do.

    draft: the one to write anew, where there is one.
    """
    if draft is None:
        draft = draft_request(wish, tenant=tenant, by=by, at=at)
    else:
        change_draft(draft, wish, by=by)
    if draft.state != RequestState.DRAFT:  # the form was sent before
        return draft
    return submit_request(draft, by=by, at=at)


@transaction.atomic
def answer_question(
    request: QuotaRequest, answer: str, *, by: User, at: datetime, seen: int | None = None
) -> None:
    """Answer what an operator asked; it is theirs again. Raises NotAllowed, Refused, Conflict."""
    require_role(by, request.tenant, Role.LEAD)
    if not answer.strip():
        raise Refused(_("Write the answer."), field="note")
    locked = lock_request(request, seen=seen)
    move(locked, RequestState.IN_REVIEW, Step(action=Action.ANSWER, at=at, by=by, note=answer))


@transaction.atomic
def accept_offer(request: QuotaRequest, *, by: User, at: datetime, seen: int | None = None) -> None:
    """Take a counter-offer, if its GPUs are still there. Raises NotAllowed, OverCommitted,
    Conflict.
    """
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    if locked.state != RequestState.COUNTERED:
        raise Conflict(_("%(request)s has no open offer.") % {"request": locked.public_id})
    offer = locked.grant
    step = Step(action=Action.ACCEPT, at=at, by=by, numbers=numbers_of(offer))
    grant_now(locked, offer, step)


@transaction.atomic
def decline_offer(
    request: QuotaRequest, why: str, *, by: User, at: datetime, seen: int | None = None
) -> None:
    """Turn a counter-offer down, which ends the request. Raises NotAllowed, Conflict."""
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    move(locked, RequestState.DECLINED, Step(action=Action.DECLINE, at=at, by=by, note=why))


@transaction.atomic
def withdraw_request(
    request: QuotaRequest, *, by: User, at: datetime, note: str = "", seen: int | None = None
) -> None:
    """Take back what has not been granted. Raises NotAllowed below lead, Conflict afterwards."""
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    move(locked, RequestState.WITHDRAWN, Step(action=Action.WITHDRAW, at=at, by=by, note=note))


@transaction.atomic
def hand_back(
    request: QuotaRequest, gpus: int, *, by: User, at: datetime, seen: int | None = None
) -> QuotaGrant:
    """Give `gpus` guaranteed GPUs of a grant back now; with the last of them it closes.

    Nothing is stopped: what runs above the quota can be reclaimed. Raises NotAllowed below lead,
    Refused for more than there are, Conflict for what is not in force.
    """
    require_role(by, request.tenant, Role.LEAD)
    locked = lock_request(request, seen=seen)
    grant = locked.grant if locked.state in IN_FORCE | {RequestState.SCHEDULED} else None
    if grant is None:
        raise Conflict(_("%(request)s is not in force.") % {"request": locked.public_id})
    _check_handed_back(gpus, grant)
    flavor = lock_flavor(grant.flavor_id)
    grant.gpus -= gpus
    grant.save(update_fields=["gpus"])
    numbers = {"flavor": flavor.name, "handed_back": gpus, "gpus": grant.gpus}
    note(locked, Step(action=Action.HAND_BACK, at=at, by=by, numbers=numbers))
    if grant.gpus == 0:
        move(locked, RequestState.CLOSED, Step(action=Action.CLOSE, at=at, by=by))
    derive_quota(locked.tenant, flavor, by=by, reason=f"{locked.public_id}: hand back")
    return grant


@transaction.atomic
def hand_back_quota(quota: Quota, gpus: int, *, by: User, at: datetime) -> None:
    """Give `gpus` granted GPUs of `quota` back now, of the grant that would end last first.

    Raises as `hand_back`, Refused for more than grants give: the rest is an operator's to take.
    """
    if quota.tenant is None:
        raise Refused(_("A cohort's quota is an operator's to change."))
    require_role(by, quota.tenant, Role.LEAD)
    grants = QuotaGrant.objects.filter(request__tenant=quota.tenant, flavor=quota.flavor)
    grants = grants.filter(request__state__in=GUARANTEED).select_related("request__tenant")
    for grant in grants.order_by("-ends_on", "pk"):
        taken = min(gpus, grant.gpus)
        if taken:
            hand_back(grant.request, taken, by=by, at=at)
        gpus -= taken
    if gpus:
        message = _("Grants give %(granted)d of them; the rest has no end and is not handed back.")
        raise Refused(message % {"granted": quota.granted}, field="gpus")


def terms_of(request: QuotaRequest) -> dict[str, object]:
    """The columns that a grant has in common with its request."""
    names = ("gpus", "borrowing_gpus", "gpu_hours", "starts_on", "ends_on")
    return {"request": request, **{name: getattr(request, name) for name in names}}


def _twin(wish: QuotaWish, tenant: Tenant) -> QuotaRequest | None:
    """What the same form has led to before."""
    if not wish.form_key:
        return None
    return QuotaRequest.objects.filter(tenant=tenant, form_key=wish.form_key).first()


def _columns(wish: QuotaWish) -> dict[str, object]:
    return {name: getattr(wish, name) for name in QuotaWish.__slots__}


def _check(wish: QuotaWish) -> None:
    """What even a draft keeps to."""
    if wish.flavor is not None and wish.flavor.cluster_id != wish.cluster.pk:
        raise Refused(_("That kind of GPU belongs to another cluster."), field="flavor")
    if wish.flavor is not None and wish.gpu_memory_mib:
        raise Refused(_("Name a GPU model or a memory, not both."), field="gpu_memory_mib")
    check_days(wish.starts_on, wish.ends_on)


def _check_replaced(wish: QuotaWish, tenant: Tenant) -> None:
    if wish.replaces is None:
        return
    old = wish.replaces
    if old.tenant_id != tenant.pk or old.state not in IN_FORCE | {RequestState.SCHEDULED}:
        raise Refused(_("Only a grant in force can be changed or renewed."), field="replaces")
    if old.grant.not_renewable_because and wish.ends_on > old.grant.ends_on:
        shown = {"request": old.public_id, "why": old.grant.not_renewable_because}
        raise Refused(_("%(request)s cannot be renewed: %(why)s") % shown, field="replaces")


def _check_complete(request: QuotaRequest, *, today: date) -> None:
    """What a request needs before anybody else reads it."""
    if not request.gpus and not request.borrowing_gpus:
        raise Refused(_("Ask for at least one GPU."), field="gpus")
    if request.ends_on < today:
        raise Refused(_("The last day is over already."), field="ends_on")
    if request.days > LONGEST_DAYS:
        raise Refused(_("Ask for three years at most."), field="ends_on")
    if len(request.justification.strip()) < SHORTEST_JUSTIFICATION:
        message = ngettext(
            "Say in %(least)d character or more what it is for.",
            "Say in %(least)d characters or more what it is for.",
            SHORTEST_JUSTIFICATION,
        )
        raise Refused(message % {"least": SHORTEST_JUSTIFICATION}, field="justification")
    if _is_renewal(request) and not request.outcome.strip():
        raise Refused(_("Say in two sentences what came of it so far."), field="outcome")


def _is_renewal(request: QuotaRequest) -> bool:
    return request.replaces is not None and request.ends_on > request.replaces.grant.ends_on


def _check_handed_back(gpus: int, grant: QuotaGrant) -> None:
    if not 1 <= gpus <= grant.gpus:
        message = _("Hand back between 1 and %(gpus)d GPUs.")
        raise Refused(message % {"gpus": grant.gpus}, field="gpus", numbers={"limit": grant.gpus})
