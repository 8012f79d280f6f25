"""Priority classes with who may use them and which jobs do."""

from dataclasses import dataclass

from django.db.models import Count, Q

from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.states import FINAL, HOLDING, JobState
from tenants.models import PriorityClass, Tenant

MOST_CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRow:
    """barred: slugs of tenants that may not use it. row: None where no class has the value."""

    row: PriorityClass | None
    value: int
    waiting: int
    holding: int
    barred: tuple[str, ...]
    allowed: tuple[str, ...]


def priority_rows() -> list[PriorityRow]:
    """Most urgent first. Three queries."""
    live = Job.objects.exclude(state__in=sorted(FINAL)).order_by().values("priority")
    counts = live.annotate(
        waiting=Count("pk", filter=Q(state__in=[JobState.QUEUED, JobState.SUSPENDED])),
        holding=Count("pk", filter=Q(state__in=sorted(HOLDING))),
    )
    used = {row["priority"]: (row["waiting"], row["holding"]) for row in counts}
    classes = {row.value: row for row in PriorityClass.objects.all()}
    tenants = Tenant.objects.active().order_by("slug")
    highest = list(tenants.values_list("slug", "highest_priority__value"))
    return [
        PriorityRow(
            row=classes.get(value),
            value=value,
            waiting=used.get(value, (0, 0))[0],
            holding=used.get(value, (0, 0))[1],
            barred=tuple(slug for slug, most in highest if most is not None and most < value),
            allowed=tuple(slug for slug, most in highest if most is None or most >= value),
        )
        for value in sorted(classes.keys() | used.keys(), reverse=True)
    ]


def priority_changes() -> list[AuditEvent]:
    """Who last did what to which class, newest first. One query."""
    events = AuditEvent.objects.filter(object_kind="priorityclass").select_related("actor")
    return list(events.order_by("-at", "-pk")[:MOST_CHANGES])
