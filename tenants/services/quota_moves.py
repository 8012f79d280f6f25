"""The one way in which a quota request changes its state."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, IllegalTransition
from tenants.models import QuotaGrant, QuotaRequest, QuotaRequestEvent, User
from tenants.models.quota_request import QuotaTerms
from tenants.states import TRANSITIONS, RequestState

Action = QuotaRequestEvent.Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done to a request: by whom (None: the system), when (wall clock) and why."""

    action: Action
    at: datetime
    by: User | None = None
    note: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def lock_request(request: QuotaRequest, *, seen: int | None = None) -> QuotaRequest:
    """The row of `request` as it is now, held until the commit; of two deciders one waits here.

    With it the one that it replaces, which its start would end. seen: the version that the caller
    looked at. Raises Conflict when it has changed since.
    """
    rows = QuotaRequest.objects.select_for_update(of=("self",))
    rows = rows.select_related("tenant", "cluster", "flavor", "replaces")
    held = rows.filter(pk__in=[request.pk, request.replaces_id]).order_by("pk")
    locked = next(row for row in held if row.pk == request.pk)
    if seen is not None and locked.version != seen:
        raise Conflict(_changed(locked))
    return locked


def lock_requests(requests: Iterable[QuotaRequest]) -> None:
    """Hold the rows of many requests, and of those that they replace, in the order of their keys.

    Whoever needs several calls this first, and `lock_request` for each afterwards.
    """
    keys = {key for each in requests for key in (each.pk, each.replaces_id)}
    rows = QuotaRequest.objects.select_for_update(of=("self",)).order_by("pk")
    list(rows.filter(pk__in=keys - {None}).values_list("pk"))


@transaction.atomic
def move(request: QuotaRequest, to: RequestState, step: Step, **changes: Any) -> None:
    """Move `request`, which the caller has locked, with its event and its audit line.

    `changes` are further columns that change with the state. Raises IllegalTransition.
    """
    if to not in TRANSITIONS[RequestState(request.state)]:
        raise IllegalTransition(_changed(request))
    before = request.state
    request.state = to
    for name, value in changes.items():
        setattr(request, name, value)
    request.version += 1
    request.save(update_fields=["state", "version", *changes])
    _write(request, step, from_state=before)


@transaction.atomic
def note(request: QuotaRequest, step: Step) -> None:
    """Write down what happened to `request` without moving it; the caller has locked it."""
    request.version += 1
    request.save(update_fields=["version"])
    _write(request, step, from_state=request.state)


def numbers_of(terms: QuotaTerms) -> dict[str, Any]:
    """What is asked, offered or granted, as events and the audit keep it."""
    flavor = terms.flavor if isinstance(terms, QuotaRequest | QuotaGrant) else None
    return {
        "flavor": flavor.name if flavor else "",
        "gpus": terms.gpus,
        "borrowing_gpus": terms.borrowing_gpus,
        "gpu_hours": terms.gpu_hours,
        "starts_on": terms.starts_on.isoformat(),
        "ends_on": terms.ends_on.isoformat(),
    }


def _write(request: QuotaRequest, step: Step, *, from_state: str) -> None:
    QuotaRequestEvent.objects.create(
        request=request,
        action=step.action,
        from_state=from_state,
        to_state=request.state,
        actor=step.by,
        at=step.at,
        note=step.note,
        numbers=step.numbers,
    )
    audit.record(
        f"{step.action}_quota_request",
        request,
        by=step.by,
        before={"state": from_state},
        after={"state": request.state, **step.numbers},
        reason=step.note,
    )


def _changed(request: QuotaRequest) -> str:
    """What a second decider is told: who was first, and what they did."""
    last = request.events.select_related("actor").order_by("-pk").first()
    shown = {
        "request": request.public_id,
        "state": RequestState(request.state).label,
        "who": (last and last.actor) or _("the system"),
    }
    return _("%(request)s has changed meanwhile: %(state)s, by %(who)s. Look at it again.") % shown
