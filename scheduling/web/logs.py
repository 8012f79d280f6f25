import hashlib
from dataclasses import dataclass
from typing import Self

from django.http import HttpRequest, HttpResponse

from portal.core.errors import ClusterAway, NotFound
from portal.core.web import found, polled, tag_of
from scheduling.models import Job, Member
from scheduling.reports.member_log import (
    LogPage,
    cluster_away,
    log_page,
    members_of,
    named,
    whole_log,
)
from scheduling.web.job import LOOK_EVERY, visible_job
from scheduling.web.log_lines import written
from tenants.access import require_role
from tenants.models import Role
from topology.services.reach import gateway_to

LENGTHS = (200, 2000, 20_000)
MOST_MEMBERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """What is looked at of a job's logs, as the URL says; what it does not know is not there."""

    member: str
    lines: int
    text: str
    with_times: bool
    follows: bool

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        asked = request.GET
        lines = asked.get("lines", "")
        return cls(
            member=asked.get("member", ""),
            lines=int(lines) if lines in map(str, LENGTHS) else LENGTHS[0],
            text=asked.get("q", "").strip().replace("\0", "")[:200],
            with_times=asked.get("times") == "1",
            follows=asked.get("follow") != "0",
        )


@found(visible_job, "GET", "HEAD")
def job_logs(request: HttpRequest, job: Job) -> HttpResponse:
    """The end of what a member of the job wrote; it follows while the member runs."""
    require_role(request.user, job.tenant, Role.RESEARCHER)
    chosen, members = LogFilter.of(request), members_of(job)
    member = named(members, chosen.member)
    page = _page_of(job, member, chosen)
    return polled(
        request,
        ("scheduling/job_logs.html", "scheduling/partials/_log.html"),
        lambda: {
            "job": job,
            "tab": "logs",
            "may_submit": True,
            "chosen": chosen,
            "lengths": LENGTHS,
            "members": members[:MOST_MEMBERS],
            "member": member,
            "log": page,
            "written": written(page.lines, text=chosen.text, with_times=chosen.with_times),
        },
        tag=tag_of(request, job.version, member and member.pk, _mark(page)),
        every=LOOK_EVERY,
        ended=page.is_final or not chosen.follows,
    )


def _page_of(job: Job, member: Member | None, chosen: LogFilter) -> LogPage:
    try:
        gateway = gateway_to(job.cluster)
    except ClusterAway:
        return cluster_away()
    return log_page(job, member, gateway, lines=chosen.lines, text=chosen.text)


@found(visible_job, "GET", "HEAD")
def job_log_file(request: HttpRequest, job: Job) -> HttpResponse:
    """All that a member wrote, as a file; of a very long log the end."""
    require_role(request.user, job.tenant, Role.RESEARCHER)
    member = named(members_of(job), LogFilter.of(request).member)
    if member is None or not member.pod_name:
        raise NotFound("")
    data = whole_log(job, member, gateway_to(job.cluster))
    name = f"{job.public_id}-{_called(member)}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(data, content_type="text/plain; charset=utf-8", headers=headers)


def _called(member: Member) -> str:
    return f"{member.group.name}-{member.rank}"


def _mark(page: LogPage) -> str:
    said = repr((page.silence, page.lines)).encode()
    return hashlib.sha256(said).hexdigest()
