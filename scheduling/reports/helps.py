"""What would help a waiting job, as sentences: each was tried on the cluster as it was found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduling.engine.advice import Aid, Effect
from scheduling.engine.explain import ChangeKind
from scheduling.models import Advice, Job, Level
from scheduling.reports.reasons import duration_text
from tenants.models import User


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """One thing that would help. change: what would be different, as the API writes it.

    value: for a change that is asked of the job itself. job: the one whose end would do, if the
    reader may see it.
    """

    kind: str
    value: str
    effect: str
    text: str
    change: Mapping[str, Any]
    job: Job | None = None

    @property
    def is_of_job(self) -> bool:
        """Whether the job itself would ask for something else."""
        return self.kind not in set(Aid)


def helps_of(job: Job, advice: Advice, *, reader: User) -> tuple[Help, ...]:
    """What `advice` found for `job`, told to `reader`. One query at most."""
    ends = [one["value"] for one in advice.found if one["kind"] == Aid.END]
    seen = Job.objects.visible_to(reader).filter(public_id__in=ends) if ends else ()
    visible = {other.public_id: other for other in seen}
    return tuple(_help(job, one, visible) for one in advice.found)


def _help(job: Job, one: Mapping[str, Any], visible: Mapping[str, Job]) -> Help:
    kind, value = one["kind"], one["value"]
    other = visible.get(value) if kind == Aid.END else None
    does = _does(job, one, other)
    then = (
        _("%(change)s: it starts now.")
        if one["effect"] == Effect.STARTS_NOW
        else _("%(change)s: it can start when its turn comes.")
    )
    return Help(
        kind=kind,
        value=str(value),
        effect=one["effect"],
        text=then % {"change": does},
        change=_change(one, other),
        job=other,
    )


def _does(job: Job, one: Mapping[str, Any], other: Job | None) -> str:
    kind, value = one["kind"], one["value"]
    if kind in _COUNTED:
        return _COUNTED[kind](value) % {
            "n": value,
            "flavor": one.get("flavor"),
            "tenant": job.tenant.name,
        }
    match kind:
        case ChangeKind.FLAVOR:
            return _("On %(flavor)s as well") % {"flavor": value}
        case ChangeKind.LEVEL:
            return _level(value)
        case ChangeKind.WALLTIME:
            return _("With a longest run of %(time)s") % {"time": duration_text(value)}
        case ChangeKind.PREEMPTIBLE:
            return _("If it may be stopped for others")
    name = other.name if other else _("a running job of another tenant")
    return _("Once %(job)s ends") % {"job": name}


_COUNTED: Mapping[str, Callable[[int], str]] = {
    ChangeKind.MEMBERS: lambda n: ngettext("With %(n)d member", "With %(n)d members", n),
    ChangeKind.GPUS_PER_MEMBER: lambda n: ngettext(
        "With %(n)d GPU a member", "With %(n)d GPUs a member", n
    ),
    Aid.QUOTA: lambda n: ngettext(
        "With %(n)d more GPU of %(flavor)s guaranteed to %(tenant)s",
        "With %(n)d more GPUs of %(flavor)s guaranteed to %(tenant)s",
        n,
    ),
}


def _level(value: str) -> str:
    if not value:
        return _("On any nodes, however far apart")
    return _("If %(level)s is close enough") % {"level": Level(value).label}


def _change(one: Mapping[str, Any], other: Job | None) -> dict[str, Any]:
    kind, value = one["kind"], one["value"]
    match kind:
        case ChangeKind.LEVEL:
            return {"topology": {"required": value} if value else None}
        case ChangeKind.WALLTIME:
            return {"walltime_seconds": value}
        case ChangeKind.PREEMPTIBLE:
            return {"preemptible": True}
        case Aid.QUOTA:
            return {"quota": {"flavor": one["flavor"], "gpus": value}}
        case Aid.END:
            return {"end_of": other.public_id if other else None}
        case _:
            return {kind: value}
