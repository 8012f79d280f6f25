"""Sentences about jobs and GPUs for templates: `{% load jobs %}`."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from urllib.parse import quote

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.core.templatetags.ui import icon
from portal.core.templatetags.units import duration
from scheduling.engine.explain import ChangeKind
from scheduling.models import Job, JobEvent
from scheduling.reports import reasons
from scheduling.reports.jobs import JobRow
from scheduling.reports.occupancy import GpuUse, NodeUse
from scheduling.services.past import course as past
from scheduling.states import JobState
from scheduling.web.drawing import NodePicture
from scheduling.web.map import Pool
from topology.models import Gpu, Node

register = template.Library()

# Reasons that services give for a step; others are a cluster's own words and shown as they are.
STEPS = {
    "submitted": gettext_lazy("submitted"),
    "placed": gettext_lazy("placed"),
    past.TRACED: gettext_lazy("submitted: replayed by Muster's simulator from the Philly trace"),
    past.MADE_UP: gettext_lazy("submitted: made up for the demo, replayed by its simulator"),
    "stopped": gettext_lazy("stopped"),
    "cancelled": gettext_lazy("cancelled"),
    "not bound in time": gettext_lazy("its members did not get onto their nodes in time"),
    "its longest run is over": gettext_lazy("its longest run is over"),
    "its longest run is nearly over": gettext_lazy("its longest run is nearly over"),
    "extended": gettext_lazy("its longest run was extended"),
    "called over while its members ran": gettext_lazy(
        "somebody called it over in the cluster while its members ran"
    ),
    "kept back by a gate that is not ours": gettext_lazy(
        "somebody else kept its members back, with a gate"
    ),
    "above what its owner may hold": gettext_lazy("its owner may hold fewer GPUs at once now"),
    "below its minimum": gettext_lazy("fewer members were left than it needs"),
    "preempted for another tenant's job": gettext_lazy("another tenant's job needed its place"),
}
SENTENCES = {
    JobState.STARTING: gettext_lazy("Room was found. Its members are being started."),
    JobState.SUSPENDED: gettext_lazy("Suspended: it holds no GPUs until it is resumed."),
    JobState.SUCCEEDED: gettext_lazy("All members ended well."),
    JobState.FAILED: gettext_lazy("It failed: see the last event and the members' exit codes."),
    JobState.CANCELLED: gettext_lazy("Cancelled. It holds no GPUs."),
}
STOPPING = {
    JobState.QUEUED: gettext_lazy("Its members are being stopped; then it queues again."),
    JobState.SUSPENDED: gettext_lazy("Its members are being stopped; then it is suspended."),
    JobState.TIMED_OUT: gettext_lazy("Its longest run is over; its members are being stopped."),
    JobState.CANCELLED: gettext_lazy("Its members are being stopped, and its GPUs given back."),
    JobState.FAILED: gettext_lazy("It has failed; its members that are left are being stopped."),
}

ASKED = {
    ChangeKind.MEMBERS: gettext_lazy("Members to start with"),
    ChangeKind.GPUS_PER_MEMBER: gettext_lazy("GPUs per member"),
    ChangeKind.FLAVOR: gettext_lazy("GPU model"),
    ChangeKind.LEVEL: gettext_lazy("How close its nodes are"),
    ChangeKind.WALLTIME: gettext_lazy("Longest run"),
    ChangeKind.PREEMPTIBLE: gettext_lazy("Making room"),
}

CELL = (
    '<a class="cell-{0}" data-kind="{0}" href="{1}" transform="translate({2} {3})">'
    "<title>{4}</title>{5}</a>"
)

NODE_BOTTOM, NODE_INSIDE = 19, 16  # of a cell of 22
NODE_CELL = (
    '<a class="far-cell far-{0}" data-state="{0}" href="{1}"><svg viewBox="0 0 22 22" width="22" '
    'height="22" role="img"><title>{2}</title><rect class="cell-edge" x="1" y="1" width="20" '
    'height="20" rx="3"></rect><rect class="cell-mark" x="3" y="{3}" width="16" height="{4}">'
    "</rect>{5}</svg></a>"
)
FAULT = mark_safe('<path class="far-fault" d="M6 6l10 10M16 6L6 16"></path>')
NODE_LINE = (
    '<tr data-state="{0}"><th scope="row"><a class="name" href="{1}">{2}</a></th>'
    '<td><span class="state state-{0}">{3}</span></td><td class="wide">{4}</td>'
    '<td class="wide">{5}</td><td class="num">{6}</td></tr>'
)


@register.filter
def word(words: Mapping[str, str], code: str) -> str:
    """The word for a code."""
    return str(words[code])


@register.filter
def gpu_ranges(gpus: Sequence[Gpu]) -> str:
    """The indexes of a node's GPUs, runs of them shortened: "0–3, 6"."""
    return _ranges(gpu.index for gpu in gpus)


@register.filter
def label_ranges(labels: Sequence[str]) -> str:
    """Devices by their labels: whole GPUs as `gpu_ranges` has them, then their parts."""
    whole = [int(label) for label in labels if label.isdecimal()]
    parts = [label for label in labels if not label.isdecimal()]
    return ", ".join([*([_ranges(whole)] if whole else []), *parts])


def _ranges(numbers: Iterable[int]) -> str:
    # In a run the index and the place grow together, so their difference stays.
    indexes = sorted(numbers)
    runs = groupby(enumerate(indexes), key=lambda pair: pair[1] - pair[0])
    texts = [_run_text([index for _place, index in run]) for _difference, run in runs]
    return ", ".join(texts) or "–"


@register.simple_tag
def reason_text(job: Job) -> str:
    """Why `job` waits."""
    return reasons.reason_text(job)


@register.simple_tag
def change_label(kind: ChangeKind) -> str:
    """What a change of a waiting job is about."""
    return str(ASKED[kind])


@register.simple_tag
def event_reason(event: JobEvent) -> str:
    """Why a job took this step."""
    return str(STEPS.get(event.reason, event.reason))


@register.filter
def is_of_the_past(job: Job) -> bool:
    """Whether `job` is one of those that the demo only tells of; see `scheduling.services.past`."""
    return job.cluster.is_simulated and job.external_id.startswith(f"{past.NAME}/")


@register.simple_tag
def job_sentence(job: Job, row: JobRow) -> str:
    """The one sentence of a job's page: what is going on with it."""
    match JobState(job.state):
        case JobState.QUEUED:
            return reasons.reason_text(job)
        case JobState.RUNNING:
            gpus = ngettext("Running on %(gpus)d GPU.", "Running on %(gpus)d GPUs.", row.gpus)
            return gpus % {"gpus": row.gpus}
        case JobState.STOPPING:
            return str(STOPPING.get(job.stopping_to, STOPPING[JobState.CANCELLED]))
        case JobState.TIMED_OUT:
            return _("Stopped because it ran for its longest run of %(time)s.") % {
                "time": duration(job.walltime_seconds)
            }
        case other:
            return str(SENTENCES[other])


@register.simple_tag
def gpu_cells(picture: NodePicture, kinds: Mapping[str, str]) -> SafeString:
    """The GPUs of a node's picture, each a link to its job, or to its node.

    In Python, since a map has hundreds and a template takes ten times as long for each.
    """
    node = picture.plan.node
    ids = {cell.use.holder.job_id for cell in picture.cells if cell.use.holder}
    links = {job_id: reverse("job", args=[job_id]) for job_id in ids if job_id}
    here = reverse("node", args=[node.name])
    rows = (
        (
            cell.use.kind,
            links.get(cell.use.holder.job_id, here) if cell.use.holder else here,
            cell.x,
            cell.y,
            gpu_says(cell.use, node, kinds),
            _shape(cell.use.kind),
        )
        for cell in picture.cells
    )
    return format_html_join("\n", CELL, rows)


@register.simple_tag
def node_cells(nodes: Sequence[NodeUse], states: Mapping[str, str]) -> SafeString:
    """The nodes of a rack, a link each, filled from below as far as their GPUs are in use.

    In Python as `gpu_cells` is; names and words are escaped, the rest is numbers and ours.
    """
    says = _("%(node)s: %(state)s, %(free)d of %(total)d GPUs free")
    return mark_safe("".join(_node_cell(use, says, states) for use in nodes))  # noqa: S308 - escaped


def _node_cell(use: NodeUse, says: str, states: Mapping[str, str]) -> str:
    total, free, name = use.total, use.free, use.node.name
    high = round(NODE_INSIDE * use.held / total) if total else 0
    said = says % {"node": name, "state": states[use.state], "free": free, "total": total}
    fault = FAULT if use.counts["fault"] else ""
    return NODE_CELL.format(
        use.state, _node_url(name), escape(said), NODE_BOTTOM - high, high, fault
    )


@register.simple_tag
def node_lines(pool: Pool, states: Mapping[str, str]) -> SafeString:
    """The nodes of a pool as rows of a table, in Python as above."""
    marks = {state: f"{icon('node-', state)}{escape(word)}" for state, word in states.items()}
    of, kind = _("%(free)s of %(total)s"), escape(pool.name or "–")
    lines = (
        NODE_LINE.format(
            use.state,
            _node_url(use.node.name),
            escape(use.node.name),
            marks[use.state],
            kind,
            escape(use.node.rack or "–"),
            escape(of % {"free": use.free, "total": use.total}),
        )
        for use in pool.nodes
    )
    return mark_safe("".join(lines))  # noqa: S308 - escaped


def _node_url(name: str) -> str:
    """As `reverse`, which takes ten times as long."""
    return escape(_node_pattern() + quote(name) + "/")


@cache
def _node_pattern() -> str:
    return reverse("node", args=["-"]).removesuffix("-/")


def gpu_says(use: GpuUse, node: Node, kinds: Mapping[str, str]) -> str:
    """A GPU of the map in words: where, what state, whose job."""
    said = _("GPU %(index)d of %(node)s: %(state)s") % {
        "index": use.gpu.index,
        "node": node.name,
        "state": kinds[use.kind],
    }
    if use.holder is None:
        return said
    return f"{said} – {use.holder.job_name or use.holder.tenant}"


@cache
def _shape(kind: str) -> SafeString:
    return render_to_string("scheduling/partials/_cell.html", {"kind": kind})


def _run_text(run: Sequence[int]) -> str:
    return f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0])
