from dataclasses import dataclass
from typing import Any, Self

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.core.exports import Cell, csv_response
from portal.core.web import Slice, found, polled, signed_in, tag_of
from scheduling.models import Job, JobArray, SavedView
from scheduling.querysets import JobQuerySet
from scheduling.reports.jobs import JobRow, count_by_state, job_rows, with_rows
from scheduling.services.saved_views import remove_view, save_view
from scheduling.states import FINAL, JobState
from scheduling.web.bulk import ACTIONS
from tenants.access import has_role
from tenants.models import Role, Tenant

PAGE_SIZE = 25
LOOK_EVERY = 15.0  # seconds
MINUTE = 60
MOST_IN_A_FILE = 20_000
COLUMNS = (
    "id",
    "name",
    "tenant",
    "owner",
    "state",
    "gpus",
    "shape",
    "gpu_models",
    "submitted_at",
    "started_at",
    "ended_at",
    "waited_seconds",
    "ran_seconds",
)
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
    array: str
    text: str
    order: str

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        return cls.of_query(request.GET)

    @classmethod
    def of_query(cls, query: str | QueryDict) -> Self:
        asked = QueryDict(query) if isinstance(query, str) else query
        state, order = asked.get("state", ""), asked.get("order", NEWEST)
        return cls(
            state=state if state in JobState.values else "",
            tenant=asked.get("tenant", "").replace("\0", ""),
            owner="me" if asked.get("owner") == "me" else "",
            array=asked.get("array", "").replace("\0", "")[:12],
            text=asked.get("q", "").strip().replace("\0", "")[:80],
            order=order if order in ORDERS else NEWEST,
        )

    @property
    def query(self) -> str:
        """The address of this list, as short as it can be."""
        said = {
            "state": self.state,
            "tenant": self.tenant,
            "owner": self.owner,
            "array": self.array,
            "q": self.text,
            "order": "" if self.order == NEWEST else self.order,
        }
        return urlencode({name: value for name, value in said.items() if value})

    def narrow(self, jobs: JobQuerySet, request: HttpRequest) -> JobQuerySet:
        """`jobs` by all but the state, which is counted."""
        if self.tenant:
            jobs = jobs.filter(tenant__slug=self.tenant)
        if self.owner:
            jobs = jobs.filter(owner=request.user)
        if self.array:
            jobs = jobs.filter(array__public_id=self.array)
        if self.text:
            jobs = jobs.filter(Q(name__icontains=self.text) | Q(public_id=self.text))
        return jobs


@require_safe
@signed_in
def job_list(request: HttpRequest) -> HttpResponse:
    """Jobs of the reader's tenants, newest first unless asked otherwise."""
    chosen = JobFilter.of(request)
    matching = chosen.narrow(Job.objects.visible_to(request.user), request)
    counts = count_by_state(matching)
    total = counts[chosen.state] if chosen.state else sum(counts.values())
    page = Slice.asked_for(request, size=PAGE_SIZE, total=total)
    versions = _page_of(matching, chosen, page)
    wall = timezone.now()
    return polled(
        request,
        ("scheduling/job_list.html", "scheduling/partials/_job_table.html"),
        lambda: {
            "chosen": chosen,
            **_array(request, chosen),
            "states": _chips(chosen, counts),
            "all_count": sum(counts.values()),
            "tenants": Tenant.objects.visible_to(request.user).order_by("slug"),
            "page": page,
            "rows": job_rows(_jobs_of(request, versions), wall=wall),
            "views": SavedView.objects.filter(user=request.user).order_by("name"),
            "actions": [(name, label) for name, (label, _done, _act) in ACTIONS.items()],
        },
        tag=tag_of(request, versions, counts, page, int(wall.timestamp()) // MINUTE),
        every=LOOK_EVERY,
    )


def _array(request: HttpRequest, chosen: JobFilter) -> dict[str, Any]:
    """The array whose tasks are listed, and whether the reader may cancel what is left of it."""
    arrays = JobArray.objects.visible_to(request.user).select_related("tenant")
    array = arrays.filter(public_id=chosen.array).first() if chosen.array else None
    if array is None:
        return {"array": None}
    is_over = not array.tasks.exclude(state__in=FINAL).exists()
    may = has_role(request.user, array.tenant, Role.RESEARCHER)
    return {"array": array, "may_cancel_array": may and not is_over}


@require_safe
@signed_in
def job_file(request: HttpRequest) -> HttpResponse:
    """The list as a file for spreadsheets: all its pages, as far as anybody reads."""
    chosen = JobFilter.of(request)
    matching = chosen.narrow(Job.objects.visible_to(request.user), request)
    if chosen.state:
        matching = matching.filter(state=chosen.state)
    jobs = with_rows(matching).order_by(*ORDERS[chosen.order])[:MOST_IN_A_FILE]
    rows = (_cells(row) for row in job_rows(jobs, wall=timezone.now()))
    return csv_response("jobs.csv", COLUMNS, rows)


def _cells(row: JobRow) -> tuple[Cell, ...]:
    job = row.job
    return (
        job.public_id,
        job.name,
        job.tenant.slug,
        job.owner.username,
        job.state,
        row.gpus,
        row.shape,
        " ".join(row.flavors),
        job.submitted_at,
        job.started_at,
        job.ended_at,
        round(row.waited_seconds),
        None if row.ran_seconds is None else round(row.ran_seconds),
    )


@require_POST
@signed_in
def keep_view(request: HttpRequest) -> HttpResponse:
    """Keeps the list as it is seen under a name."""
    query = JobFilter.of_query(request.POST.get("query", "")).query
    save_view(request.user, name=request.POST.get("name", "").replace("\0", ""), query=query)
    return redirect(f"{reverse('job-list')}?{query}")


def own_view(request: HttpRequest, view: int) -> SavedView:
    return get_object_or_404(SavedView, user=request.user, pk=view)


@found(own_view, "POST")
def forget_view(request: HttpRequest, view: SavedView) -> HttpResponse:
    remove_view(view)
    messages.success(request, _("The view %(name)s is removed.") % {"name": view.name})
    return redirect("job-list")


def _page_of(matching: JobQuerySet, chosen: JobFilter, page: Slice) -> list[tuple[int, int]]:
    """(key, version) of each job on the page."""
    if chosen.state:
        matching = matching.filter(state=chosen.state)
    ordered = matching.order_by(*ORDERS[chosen.order]).values_list("pk", "version")
    return list(ordered[page.start : page.start + page.size])


def _jobs_of(request: HttpRequest, versions: list[tuple[int, int]]) -> list[Job]:
    """The jobs on the page, in its order. Three queries."""
    keys = [key for key, _version in versions]
    jobs = with_rows(Job.objects.visible_to(request.user)).in_bulk(keys)
    return [jobs[key] for key in keys if key in jobs]


def _chips(chosen: JobFilter, counts: dict[str, int]) -> list[tuple[JobState, int]]:
    """States to filter by, in the order of a job's life: those that have jobs, and the chosen."""
    return [(state, counts[state]) for state in JobState if counts[state] or state == chosen.state]
