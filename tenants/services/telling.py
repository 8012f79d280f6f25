"""Steps of quota requests, told to those whom they concern.

Level, not edge: every step carries whether it was told, so none is lost and none told twice.
"""

from collections.abc import Iterator
from datetime import datetime

from django.db import transaction
from django.urls import reverse

from tenants.models import Membership, NotificationKind, QuotaRequestEvent, Role, User
from tenants.services.notifications import Notice, notify

Action = QuotaRequestEvent.Action
BATCH = 200
_ANSWERS = {Action.ASK, Action.COUNTER, Action.APPROVE, Action.APPROVE_BY_RULE, Action.REJECT}
_ENDS = {Action.REMIND, Action.END, Action.CLOSE, Action.REVOKE}
_FOR_OPERATORS = {Action.SUBMIT, Action.ANSWER}


@transaction.atomic
def tell_of_requests(*, at: datetime) -> int:
    """Tell of the steps that nobody was told of, a batch at most; how many. at: wall clock."""
    events = QuotaRequestEvent.objects.filter(is_told=False).order_by("pk")
    fresh = list(events.select_related("request__tenant", "request__requested_by")[:BATCH])
    notify([notice for event in fresh for notice in _notices(event)], at=at)
    QuotaRequestEvent.objects.filter(pk__in=[event.pk for event in fresh]).update(is_told=True)
    return len(fresh)


def _notices(event: QuotaRequestEvent) -> Iterator[Notice]:
    for kind, user in _whom(event):
        if user.pk != event.actor_id:  # who did it knows
            yield Notice(
                user=user,
                kind=kind,
                key=f"request-event:{event.pk}",
                link=reverse("quota-request", args=[event.request_id]),
                happened_at=event.at,
                tenant_id=event.request.tenant_id,
                facts={
                    "request": event.request.public_id,
                    "tenant": event.request.tenant.name,
                    "action": event.action,
                },
            )


def _whom(event: QuotaRequestEvent) -> Iterator[tuple[NotificationKind, User]]:
    if event.action in _ANSWERS:
        yield NotificationKind.REQUEST_DECIDED, event.request.requested_by
    if event.action in _FOR_OPERATORS:
        for operator in User.objects.filter(is_operator=True, is_active=True):
            yield NotificationKind.REQUEST_WAITING, operator
    if event.action in _ENDS:
        leads = Membership.objects.filter(tenant=event.request.tenant, role=Role.LEAD)
        for membership in leads.select_related("user"):
            yield NotificationKind.QUOTA_ENDING, membership.user
