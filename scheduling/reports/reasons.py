"""Why a job waits, as one sentence: page, mail, command line and API all say this one.

Other tenants' jobs appear as "an earlier job" and never by id: who waits in front of you is
counted, not named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from string import Formatter
from typing import Any

from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from scheduling.engine.plan import Reason, Unit, unit_of
from scheduling.models import Job, Level
from scheduling.snapshots.caps import OWN_CAP
from scheduling.states import JobState

_NAMES_A_JOB = frozenset({"job", "victims", "waits_for"})
_MINUTE, _HOUR = 60, 3600

# For each reason its sentences, the fullest first: the first that has all its numbers is said.
SENTENCES: dict[Reason, tuple[Promise, ...]] = {
    Reason.ON_HOLD: (
        gettext_lazy("On hold: {because}"),
        gettext_lazy("On hold until somebody releases it."),
    ),
    Reason.NOT_BEFORE: (
        gettext_lazy("It may not start before {at}."),
        gettext_lazy("It may not start yet."),
    ),
    Reason.DEPENDENCY_FAILED: (
        gettext_lazy("A job that it depends on has failed, so it will not start."),
    ),
    Reason.WAITING_FOR_DEPENDENCY: (
        gettext_lazy("It waits for its turn: tasks of its array that run at once: {at_once}."),
        gettext_lazy("It waits for a job that it depends on."),
    ),
    Reason.FOREIGN_GATE: (
        gettext_lazy("Somebody else keeps it back, with the gate {gate}."),
        gettext_lazy("Somebody else's gate keeps it back."),
    ),
    Reason.NO_FLAVOR: (gettext_lazy("This cluster has no node with GPUs of a kind it accepts."),),
    Reason.MEMORY_TOO_SMALL: (
        gettext_lazy("It needs {need} MiB on one GPU; the largest it accepts has {largest} MiB."),
        gettext_lazy("No GPU that it accepts has enough memory."),
    ),
    Reason.NEVER_FITS: (
        gettext_lazy(
            "Never fits as asked: {level} here could hold {largest} of its members at most."
            " Cancel it and ask for less."
        ),
        gettext_lazy(
            "Never fits as asked: this cluster could hold {largest} of its members at most."
            " Cancel it and ask for less."
        ),
        gettext_lazy(
            "Never fits as asked, not even on this cluster without other jobs. Cancel it and ask"
            " for less."
        ),
    ),
    Reason.OVER_CEILING: (
        gettext_lazy("It asks for {asked} GPUs; its tenant may never hold more than {limit}."),
        gettext_lazy("It asks for more GPUs than its tenant may ever hold."),
    ),
    Reason.BUDGET_EXHAUSTED: (
        gettext_lazy("It may use up {asked} GPU-hours; the budget has {left} left."),
        gettext_lazy("The budget does not last for it."),
    ),
    Reason.MAKING_ROOM: (
        gettext_lazy("Room is on its way back and expected at {until}."),
        gettext_lazy("Room is on its way back."),
    ),
    Reason.QUOTA_EXHAUSTED: (
        gettext_lazy(
            "GPUs left in the quota that the tenants of {cohort} share: {free};"
            " it asks for {asked}."
        ),
        gettext_lazy("GPUs left in the quota of its tenant: {free}; it asks for {asked}."),
        gettext_lazy("The quota is used up."),
    ),
    Reason.MAINTENANCE: (
        gettext_lazy("It would not end before the maintenance that begins at {from}."),
        gettext_lazy("It would not end before the next maintenance."),
    ),
    Reason.UNHEALTHY: (
        gettext_lazy("Faulty GPUs leave no room for {missing} of its members."),
        gettext_lazy("Faulty GPUs leave no room for it."),
    ),
    Reason.LAYOUT_NEEDED: (
        gettext_lazy("No GPU is cut into slices of {profile} at the moment."),
        gettext_lazy("No GPU is cut as it needs at the moment."),
    ),
    Reason.NO_WALLTIME: (
        gettext_lazy("With a walltime of at most {at_most} it could go ahead now."),
        gettext_lazy("With a shorter walltime it could go ahead now."),
    ),
    Reason.STRICT_ORDER: (
        gettext_lazy("It would fit, but an earlier job waits and the order is strict."),
    ),
    Reason.WOULD_DELAY: (
        gettext_lazy("It would delay an earlier job, which is promised its place at {at}."),
        gettext_lazy("It would delay an earlier job, which is promised its place."),
    ),
    Reason.FRAGMENTED: (
        gettext_lazy("There is room for {free} of its members, but in {level} for {largest}."),
        gettext_lazy("There is room for {free} of its members, but in one place for {largest}."),
        gettext_lazy("Enough is free in all, but not in one place."),
    ),
    Reason.NO_ROOM: (
        gettext_lazy("There is no room for {missing} of its members."),
        gettext_lazy("There is not enough room."),
    ),
}

# The same for the limit of one person, which is none of the engine's reasons.
_OF_OWN_CAP = (
    gettext_lazy(
        "It asks for {asked} GPUs; its owner may hold {limit} at once. Cancel it and ask for less,"
        " or ask a lead for a higher limit."
    ),
    gettext_lazy(
        "It waits for its owner's own jobs: they hold {held} of at most {at_most} GPUs at once,"
        " and those before it ask for {ahead}; it asks for {asked}."
    ),
    gettext_lazy(
        "It waits for its owner's own jobs: they hold {held} of at most {at_most} GPUs at once;"
        " it asks for {asked}."
    ),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of a reason: GPUs, members, instants in ISO 8601, as its code says."""

    code: str
    value: int | float | str | list[int]


def reason_text(job: Job) -> str:
    """The one sentence why `job` waits, in the reader's language; empty when it does not wait."""
    if job.state != JobState.QUEUED:
        return ""
    if not job.reason:
        return _("It has not been looked at yet; the next cycle will.")
    if job.reason == OWN_CAP:
        return _fullest(_OF_OWN_CAP, {key: str(value) for key, value in job.reason_numbers.items()})
    reason = Reason(job.reason)
    numbers = _spoken(job, reason)
    if reason == Reason.NOT_BEFORE and _is_to_be_tried_again(job):
        return _tried_again(job, numbers)
    return _fullest(SENTENCES[reason], numbers)


def _fullest(sentences: Sequence[Promise], numbers: dict[str, str]) -> str:
    for sentence in sentences:
        if numbers.keys() >= _holes(str(sentence)):
            return str(sentence).format_map(numbers)
    raise AssertionError(f"the last sentence needs a number that is none of {sorted(numbers)}")


def _is_to_be_tried_again(job: Job) -> bool:
    """Whether its last starts, rather than its owner, say before when it may not start."""
    again_at, not_before = job.start_again_at, job.not_before
    return again_at is not None and (not_before is None or not_before < again_at)


def _tried_again(job: Job, numbers: dict[str, str]) -> str:
    text = ngettext(
        "Its last start failed, as its events tell; the next try is at %(at)s.",
        "Its last %(count)s starts failed, as its events tell; the next try is at %(at)s.",
        job.failed_starts,
    )
    return text % {"count": job.failed_starts, "at": numbers["at"]}


def facts(job: Job) -> tuple[Fact, ...]:
    """The numbers behind `reason_text`, without those that name a job."""
    if job.state != JobState.QUEUED:
        return ()
    return tuple(
        Fact(code, value) for code, value in job.reason_numbers.items() if code not in _NAMES_A_JOB
    )


def _holes(sentence: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in Formatter().parse(sentence) if name}


def _spoken(job: Job, reason: Reason) -> dict[str, str]:
    numbers = {key: _say(reason, key, value) for key, value in job.reason_numbers.items()}
    if reason == Reason.QUOTA_EXHAUSTED and "at" in numbers and numbers["at"] != job.tenant.slug:
        numbers["cohort"] = numbers["at"]
    if job.held_because:
        numbers["because"] = job.held_because
    return numbers


def _say(reason: Reason, key: str, value: Any) -> str:
    if _is_instant(reason, key):
        return instant_text(datetime.fromisoformat(value))
    if key == "level":
        return str(Level(value).label)
    match unit_of(reason, key, value):
        case Unit.SECONDS:
            return duration_text(value)
        case Unit.GPU_SECONDS:
            return str(round(value / _HOUR, 1))
        case _:
            return str(value)


def _is_instant(reason: Reason, key: str) -> bool:
    """Asked with a number: `unit_of` takes a text, which instants are by now, for a word."""
    return unit_of(reason, key, 0) == Unit.INSTANT


def instant_text(at: datetime) -> str:
    """An instant in the reader's time zone, to the minute."""
    return f"{localtime(at):%Y-%m-%d %H:%M %Z}"


def duration_text(seconds: int) -> str:
    """A time span in hours and minutes, or seconds below a minute, in the reader's language."""
    hours, minutes = seconds // _HOUR, seconds % _HOUR // _MINUTE
    if hours:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    return _("%d min") % minutes if minutes else _("%d s") % seconds
