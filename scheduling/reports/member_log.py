"""What one member of a job wrote, read from the cluster: the end of it, never all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.core.errors import ClusterAway
from scheduling.models import Job, Member
from scheduling.reports.log_text import Line, is_binary, stamped_lines
from scheduling.states import ENDED_PHASES, JobState, MemberPhase
from tenants.services.tenancy import namespace_of
from topology.kube.gateway import Gateway, NotStarted, NotThere, RefusedByCluster
from topology.kube.manifest import KEPT_SECONDS
from topology.kube.values import LogAsked

MOST_BYTES = 1 << 20  # of what a page shows
SEARCHED_BYTES, SEARCHED_LINES = 4 << 20, 20_000
WHOLE_BYTES, WHOLE_LINES = 16 << 20, 1_000_000
DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """What a page shows of a log.

    silence: why there is nothing to show; empty where there is. read: lines that were looked at.
    is_final: nothing more will come. is_cut: only a part of so many lines fits.
    """

    lines: tuple[Line, ...] = ()
    silence: str = ""
    read: int = 0
    is_final: bool = False
    is_cut: bool = False


def members_of(job: Job) -> list[Member]:
    """Members of the last attempt, those that failed first to fail in front."""
    if not job.attempt:
        return []
    members = job.members.filter(attempt=job.attempt).select_related("group", "placement__node")
    return sorted(members.order_by("group__index", "rank"), key=_telling)


def _telling(member: Member) -> tuple[bool, float]:
    """Who failed first is whose log tells most: the others only followed."""
    failed = member.phase == MemberPhase.FAILED
    return not failed, member.ended_at.timestamp() if failed and member.ended_at else 0.0


def log_page(
    job: Job, member: Member | None, gateway: Gateway, *, lines: int, text: str = ""
) -> LogPage:
    """The last `lines` lines of a member, or of many more those that contain `text`."""
    if member is None or not member.pod_name:
        return LogPage(silence=_before(job, member), is_final=member is None and _is_over(job))
    most, tail = (SEARCHED_BYTES, SEARCHED_LINES) if text else (MOST_BYTES, lines)
    try:
        data, is_cut = _tail(job, member, gateway, lines=tail, most=most)
    except NotThere:
        return LogPage(silence=_gone(), is_final=True)
    except NotStarted as why:
        return LogPage(silence=_("Its container is being started: %(why)s") % {"why": why})
    except ClusterAway:
        return cluster_away()
    except RefusedByCluster as why:
        told = _("The cluster does not let Muster read logs; tell an operator: %(why)s")
        return LogPage(silence=told % {"why": why}, is_final=True)
    return _shown(data, member, lines=lines, text=text, is_cut=is_cut)


def cluster_away() -> LogPage:
    """What is said while nothing can be read."""
    return LogPage(silence=_("The cluster does not answer just now. What was written is not lost."))


def whole_log(job: Job, member: Member, gateway: Gateway) -> bytes:
    """All that a member wrote, of a very long log the end. Raises as `Gateway.log`."""
    return _tail(job, member, gateway, lines=WHOLE_LINES, most=WHOLE_BYTES, stamped=False)[0]


def _tail(
    job: Job, member: Member, gateway: Gateway, *, lines: int, most: int, stamped: bool = True
) -> tuple[bytes, bool]:
    """The end of a log in at most `most` bytes, and whether fewer lines than asked for fitted.

    A cluster cuts the end of a tail that is too long, so a shorter tail is asked for until it fits.
    """
    for count in _shorter(lines):
        asked = LogAsked(
            namespace=namespace_of(job.tenant),
            pod_name=member.pod_name,
            lines=count,
            most=most,
            stamped=stamped,
        )
        data = gateway.log(asked)
        if len(data) < most:
            break
    return data, count < lines or len(data) >= most


def _shorter(lines: int) -> Iterator[int]:
    while lines > 1:
        yield lines
        lines //= 10
    yield 1


def _shown(data: bytes, member: Member, *, lines: int, text: str, is_cut: bool) -> LogPage:
    ended = member.phase in ENDED_PHASES
    if not data:
        return LogPage(silence=_("It has written nothing."), is_final=ended)
    if is_binary(data):
        return LogPage(
            silence=_("What it wrote is no text: download it to look at it."), is_final=ended
        )
    found = list(stamped_lines(data))
    read, wanted = len(found), text.casefold()
    if wanted:
        found = [line for line in found if wanted in line.text.casefold()]
    silence = (
        "" if found else _("None of the last %(count)d lines contains this.") % {"count": read}
    )
    return LogPage(
        lines=tuple(found[-lines:]), silence=silence, read=read, is_final=ended, is_cut=is_cut
    )


def _is_over(job: Job) -> bool:
    return job.ended_at is not None


def _before(job: Job, member: Member | None) -> str:
    if member is None and _is_over(job):
        return _("It never ran, so nothing was written.")
    if member is None or job.state == JobState.QUEUED:
        return _("Nothing runs yet: the log begins when the job starts.")
    return _("Its pod is being made.")


def _gone() -> str:
    return _(
        "Its pod is no longer in the cluster, and its log went with it. Logs are kept for %(days)d "
        "days after the end of a job, and none of an attempt that was stopped."
    ) % {"days": KEPT_SECONDS // DAY}


def named(members: Sequence[Member], name: str) -> Member | None:
    """The member called so, as "main-0"; the first where no other is asked for."""
    called = {f"{member.group.name}-{member.rank}": member for member in members}
    return called.get(name) or (members[0] if members else None)
