"""Jobs as a program asks for them: narrowed by one frozen filter, with all that an answer shows."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, OuterRef, Prefetch, Q, Subquery

from scheduling.models import Job, JobArray, JobFlavor, JobGroup
from scheduling.querysets import JobQuerySet
from scheduling.states import JobState
from tenants.models import PriorityClass, User
from tenants.querysets import TenantScopedQuerySet


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSearch:
    """Which jobs; what is left empty does not narrow. text: in the name, the id or the owner's."""

    states: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    text: str = ""
    array: str = ""
    submitted_after: datetime | None = None

    def narrow(self, jobs: JobQuerySet) -> JobQuerySet:
        """`jobs` as far as this lets them through."""
        if self.states:
            jobs = jobs.filter(state__in=self.states)
        if self.tenants:
            jobs = jobs.filter(tenant__slug__in=self.tenants)
        if self.array:
            jobs = jobs.filter(array__public_id=self.array)
        if self.submitted_after is not None:
            jobs = jobs.filter(submitted_at__gt=self.submitted_after)
        return jobs.filter(_mentions(self.text)) if self.text else jobs


def jobs_seen_by(user: User) -> JobQuerySet:
    """Jobs that `user` may see, each with its `priority_class`, groups and flavors. 3 queries."""
    named = PriorityClass.objects.filter(value=OuterRef("priority")).values("name")
    return (
        Job.objects.visible_to(user)
        .annotate(priority_class=Subquery(named))
        .select_related("tenant", "cluster", "owner", "array")
        .prefetch_related(
            Prefetch("groups", JobGroup.objects.order_by("index")),
            Prefetch("accepted", JobFlavor.objects.select_related("flavor").order_by("rank")),
        )
    )


def arrays_seen_by(user: User) -> TenantScopedQuerySet:
    """Arrays that `user` may see, each with how many tasks are in each state, as `count_queued`."""
    counts = {f"count_{state}": Count("tasks", filter=Q(tasks__state=state)) for state in JobState}
    arrays = JobArray.objects.visible_to(user).select_related("tenant", "cluster", "owner")
    return arrays.annotate(**counts)


def _mentions(text: str) -> Q:
    by_owner = Q(owner__username__icontains=text)
    return Q(name__icontains=text) | Q(public_id=text) | by_owner
