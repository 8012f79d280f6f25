"""How requests have been decided so far: what a new one may expect."""

from dataclasses import dataclass
from statistics import median

from django.db.models import Count, Q

from tenants.models import QuotaRequest, QuotaRequestEvent, Tenant
from tenants.states import IN_FORCE, RequestState

_DECISIONS = ("approve", "reject", "counter")
LOOKED_AT = 50  # the newest decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """What became of a tenant's requests."""

    granted: int
    in_force: int
    rejected: int
    handed_back: int  # requests of which GPUs were given back early


def usual_wait_seconds() -> float | None:
    """From submitting to the first decision, the median of late; None before any. One query.

    What rules approve at once does not count: it says nothing of people.
    """
    events = QuotaRequestEvent.objects.filter(
        action__in=_DECISIONS, request__submitted_at__isnull=False
    )
    newest = events.order_by("-pk").values_list("at", "request__submitted_at")[:LOOKED_AT]
    waits = [(decided - submitted).total_seconds() for decided, submitted in newest]
    return median(waits) if waits else None


def counts_of(tenant: Tenant) -> RequestCounts:
    """One query."""
    granted = Q(state__in=IN_FORCE | {RequestState.CLOSED, RequestState.REVOKED})
    numbers = QuotaRequest.objects.filter(tenant=tenant).aggregate(
        granted=Count("pk", filter=granted, distinct=True),
        in_force=Count("pk", filter=Q(state__in=IN_FORCE), distinct=True),
        rejected=Count("pk", filter=Q(state=RequestState.REJECTED), distinct=True),
        handed_back=Count("pk", filter=Q(events__action="hand_back"), distinct=True),
    )
    return RequestCounts(**numbers)
