"""When a waiting job is likely to start, and how often such estimates held."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.models import Job, Reservation, StartEstimate, Unknown
from scheduling.reports.reasons import instant_text
from scheduling.states import JobState
from topology.models import Cluster

RECORD_SIZE = 100
FEWEST = 5  # estimates that make a record
NOT_YET, OVERDUE = "not_yet", "overdue"
_BECAUSE = {
    NOT_YET: gettext_lazy("it has not been looked at yet"),
    OVERDUE: gettext_lazy("it was expected to start before now"),
    Unknown.TOO_FAR: gettext_lazy("too many jobs wait in front of it to look so far ahead"),
    Unknown.NO_PAST: gettext_lazy("too few jobs have ended here to know how long they run"),
    Unknown.NO_END: gettext_lazy("it may have to wait for a job that nothing ends"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a waiting job is likely to start, by the cluster's clock.

    earliest, latest: a range that holds with a probability of `percent`; earliest alone where no
    end of the range is known. unknown: why there is no range, a code; empty where there is one.
    promised_at: from when on a place is kept for it, by the limits of what runs; None without one.
    """

    earliest: datetime | None = None
    latest: datetime | None = None
    percent: int = 0
    unknown: str = ""
    promised_at: datetime | None = None
    made_at: datetime | None = None

    @property
    def text(self) -> str:
        """The estimate as a sentence in the reader's language."""
        if self.earliest is not None and self.latest is not None:
            return _("It is expected to start %(range)s (odds: %(percent)d %%).") % {
                "range": range_text(self.earliest, self.latest),
                "percent": self.percent,
            }
        if self.unknown == Unknown.KEPT_BACK:
            return _("It starts no sooner than what keeps it back is mended.")
        because = {"because": _BECAUSE[self.unknown]}
        if self.earliest is not None:
            words = because | {"at": instant_text(self.earliest)}
            return _("Not before %(at)s; how much later is not known, because %(because)s.") % words
        return _("When it starts is not known, because %(because)s.") % because


@dataclass(frozen=True, slots=True)
class Record:
    """How the estimates of the last jobs turned out: of `told`, so many `held`."""

    told: int
    held: int

    @property
    def text(self) -> str:
        """The record as a sentence; empty while too few have turned out to say anything."""
        if self.told < FEWEST:
            return ""
        words = {"told": self.told, "held": self.held}
        return _("Of the last %(told)d estimates here, %(held)d came true.") % words


def range_text(earliest: datetime, latest: datetime) -> str:
    """A range of instants, in words, in the reader's time zone."""
    if earliest == latest:
        return _("at %(at)s") % {"at": instant_text(earliest)}
    first, last = localtime(earliest), localtime(latest)
    one_day = first.date() == last.date()
    return _("between %(earliest)s and %(latest)s") % {
        "earliest": f"{first:%Y-%m-%d %H:%M}",
        "latest": f"{last:%H:%M %Z}" if one_day else instant_text(latest),
    }


def estimate_of(job: Job) -> StartEstimate | None:
    """The row about the present wait of `job`, None where there is none. One query."""
    if job.state != JobState.QUEUED:
        return None
    return StartEstimate.objects.filter(job=job, attempt=job.attempt).first()


def start_of(job: Job, *, at: datetime) -> Start | None:
    """When `job` is likely to start; None if it does not wait. Two queries. at: cluster clock."""
    return start_from(estimate_of(job), job, at=at)


def start_from(row: StartEstimate | None, job: Job, *, at: datetime) -> Start | None:
    """As `start_of`, of the row that `estimate_of` found.

    One query, none if `job` was read with its reservation.
    """
    if job.state != JobState.QUEUED:
        return None
    promise = getattr(job, "reservation", None)
    return _start(row, promise and promise.start_at, at=at)


def starts_of(jobs: Sequence[Job], *, at: datetime) -> dict[int, Start]:
    """The same of many jobs of one cluster, by key. Two queries for any number of them."""
    waiting = [job for job in jobs if job.state == JobState.QUEUED]
    attempts = {job.pk: job.attempt for job in waiting}
    rows = StartEstimate.objects.filter(job__in=attempts)
    made = {row.job_id: row for row in rows if row.attempt == attempts[row.job_id]}
    promised = dict(Reservation.objects.filter(job__in=attempts).values_list("job", "start_at"))
    return {job.pk: _start(made.get(job.pk), promised.get(job.pk), at=at) for job in waiting}


def _start(row: StartEstimate | None, promised_at: datetime | None, *, at: datetime) -> Start:
    if row is None:
        return Start(unknown=NOT_YET, promised_at=promised_at)
    if row.latest is not None and row.latest < at:
        return Start(unknown=OVERDUE, promised_at=promised_at, made_at=row.made_at)
    return Start(
        earliest=row.earliest,
        latest=row.latest,
        percent=row.percent,
        unknown=row.unknown,
        promised_at=promised_at,
        made_at=row.made_at,
    )


def record_of(cluster: Cluster) -> Record:
    """How the first estimates of the last jobs of `cluster` turned out. One query.

    The first estimate of each wait counts, the hardest one; a job that waits beyond the end of its
    range counts as missed at once.
    """
    settled = StartEstimate.objects.filter(job__cluster=cluster, held__isnull=False)
    held = list(settled.order_by("-settled_at").values_list("held", flat=True)[:RECORD_SIZE])
    return Record(told=len(held), held=sum(held))
