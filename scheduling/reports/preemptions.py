"""What making room has to do with a job, as sentences: it was stopped, or others were for it.

Other tenants' jobs are counted and never named, as in `reasons`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from scheduling.models import Job, Preemption
from scheduling.states import FINAL, JobState

_MINUTE = 60
CAUSES = {
    Preemption.Why.RECLAIM: gettext_lazy("its tenant had borrowed its GPUs and they were needed"),
    Preemption.Why.PRIORITY: gettext_lazy("a job of higher priority needed its GPUs"),
    Preemption.Why.STANDBY: gettext_lazy("it is a standby job and its GPUs were needed"),
}


def preemption_texts(job: Job) -> tuple[str, ...]:
    """How `job` last made room for another, and who made room for it; a sentence each.

    In the reader's language; empty where nobody was stopped. Of a job that will not go on its own
    stop is no longer told. Two queries.
    """
    has_given_up = job.state in FINAL - {JobState.SUCCEEDED}
    own = None if has_given_up else job.preemptions.order_by("-pk").first()
    others = list(job.preempted_others.order_by("-decided_at", "pk"))
    latest = [other for other in others if other.decided_at == others[0].decided_at]
    said = [_of_victim(own)] if own else []
    return (*said, *([_of_claimant(latest)] if latest else []))


def _of_victim(stop: Preemption) -> str:
    words = _words([stop]) | {"cause": CAUSES[Preemption.Why(stop.why)]}
    if stop.gone_at is None:
        return _("Being stopped since %(at)s because %(cause)s.") % words
    if stop.checkpoint_at is None:
        return (
            _(
                "Stopped at %(at)s because %(cause)s; it lost %(lost)s of work and starts again"
                " from the beginning."
            )
            % words
        )
    return (
        _(
            "Stopped at %(at)s because %(cause)s; it lost %(lost)s of work and goes on from its"
            " checkpoint of %(checkpoint)s."
        )
        % words
    )


def _of_claimant(stops: Sequence[Preemption]) -> str:
    words = _words(stops)
    if any(stop.gone_at is None for stop in stops):
        text = ngettext(
            "Since %(at)s %(count)d job is being stopped for it, the one that loses least work.",
            "Since %(at)s %(count)d jobs are being stopped for it, those that lose least work.",
            len(stops),
        )
    elif all(stop.why == Preemption.Why.RECLAIM for stop in stops):
        text = ngettext(
            "At %(at)s %(count)d job on GPUs that its tenant had lent was stopped for it, the one"
            " that lost least work: %(lost)s.",
            "At %(at)s %(count)d jobs on GPUs that its tenant had lent were stopped for it, those"
            " that lost least work: %(lost)s.",
            len(stops),
        )
    else:
        text = ngettext(
            "At %(at)s %(count)d job was stopped for it, the one that lost least work: %(lost)s.",
            "At %(at)s %(count)d jobs were stopped for it, those that lost least work: %(lost)s.",
            len(stops),
        )
    return text % words


def _words(stops: Sequence[Preemption]) -> dict[str, Any]:
    saved_at = stops[0].checkpoint_at
    return {
        "at": _instant(stops[0].decided_at),
        "count": len(stops),
        "lost": _gpu_time(sum(stop.lost_gpu_seconds or 0 for stop in stops)),
        "checkpoint": _instant(saved_at) if saved_at else "",
    }


def _instant(at: datetime) -> str:
    return f"{localtime(at):%Y-%m-%d %H:%M %Z}"


def _gpu_time(seconds: int) -> str:
    minutes = round(seconds / _MINUTE)
    return ngettext("%d GPU-minute", "%d GPU-minutes", minutes) % minutes
