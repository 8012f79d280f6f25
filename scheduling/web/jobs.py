from dataclasses import dataclass
from typing import Self

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.web import Slice, polled, signed_in, tag_of
from scheduling.models import Job
from scheduling.querysets import JobQuerySet
from scheduling.reports.jobs import count_by_state, job_rows, with_rows
from scheduling.states import JobState
from tenants.models import Tenant

PAGE_SIZE = 25
LOOK_EVERY = 15.0  # seconds
MINUTE = 60
NEWEST = "-submitted"
ORDERS = {
    "submitted": ("submitted_at", "pk"),
    NEWEST: ("-submitted_at", "-pk"),
    "name": ("name", "pk"),
    "-name": ("-name", "-pk"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What a list of jobs is narrowed to, as its URL says; a word it does not know is not there."""

    state: str
    tenant: str
    owner: str
    text: str
    order: str

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        asked = request.GET
        state, order = asked.get("state", ""), asked.get("order", NEWEST)
        return cls(
            state=state if state in JobState.values else "",
            tenant=asked.get("tenant", "").replace("\0", ""),
            owner="me" if asked.get("owner") == "me" else "",
            text=asked.get("q", "").strip().replace("\0", "")[:80],
            order=order if order in ORDERS else NEWEST,
        )

    def narrow(self, jobs: JobQuerySet, request: HttpRequest) -> JobQuerySet:
        """`jobs` by all but the state, which is counted."""
        if self.tenant:
            jobs = jobs.filter(tenant__slug=self.tenant)
        if self.owner:
            jobs = jobs.filter(owner=request.user)
        if self.text:
            jobs = jobs.filter(Q(name__icontains=self.text) | Q(public_id=self.text))
        return jobs


@require_safe
@signed_in
def job_list(request: HttpRequest) -> HttpResponse:
    """Jobs of the reader's tenants, newest first unless asked otherwise."""
    chosen = JobFilter.of(request)
    found = chosen.narrow(Job.objects.visible_to(request.user), request)
    counts = count_by_state(found)
    total = counts[chosen.state] if chosen.state else sum(counts.values())
    page = Slice.asked_for(request, size=PAGE_SIZE, total=total)
    shown = _page_of(found, chosen, page)
    wall = timezone.now()
    versions = [(job.pk, job.version) for job in shown]
    return polled(
        request,
        ("scheduling/job_list.html", "scheduling/partials/_job_table.html"),
        lambda: {
            "chosen": chosen,
            "states": _chips(chosen, counts),
            "all_count": sum(counts.values()),
            "tenants": Tenant.objects.visible_to(request.user).order_by("slug"),
            "page": page,
            "rows": job_rows(shown, wall=wall),
        },
        tag=tag_of(request, versions, counts, page, int(wall.timestamp()) // MINUTE),
        every=LOOK_EVERY,
    )


def _page_of(found: JobQuerySet, chosen: JobFilter, page: Slice) -> list[Job]:
    if chosen.state:
        found = found.filter(state=chosen.state)
    ordered = with_rows(found).order_by(*ORDERS[chosen.order])
    return list(ordered[page.start : page.start + page.size])


def _chips(chosen: JobFilter, counts: dict[str, int]) -> list[tuple[JobState, int]]:
    """States to filter by, in the order of a job's life: those that have jobs, and the chosen."""
    return [(state, counts[state]) for state in JobState if counts[state] or state == chosen.state]
