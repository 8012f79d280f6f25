"""Words for operators' pages: `{% load operators %}`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.core.models import AuditEvent
from scheduling.reports.budgets import BudgetUse
from scheduling.reports.policy_history import KnobChange
from scheduling.reports.policy_trial import TriedJob
from scheduling.reports.priorities import PriorityRow
from scheduling.reports.upcoming import WINDOW, Upcoming
from scheduling.web.operators.knobs import KNOBS

register = template.Library()
MOST_NAMED = 12
ACTIONS = {
    "plan_maintenance": gettext_lazy("Maintenance planned"),
    "change_maintenance": gettext_lazy("Maintenance changed"),
    "cancel_maintenance": gettext_lazy("Maintenance cancelled"),
    "promise_block": gettext_lazy("Block promised"),
    "change_block": gettext_lazy("Block changed"),
    "cancel_block": gettext_lazy("Block cancelled"),
}
CLUSTER_ACTIONS = {
    "connect_cluster": gettext_lazy("Connected, to look only"),
    "renew_kubeconfig": gettext_lazy("Gave it a new kubeconfig"),
    "manage_cluster": gettext_lazy("Let it be managed"),
    "only_look_at": gettext_lazy("Had it only looked at"),
}
PRIORITY_ACTIONS = {
    "create_priority_class": gettext_lazy("Created"),
    "change_priority_class": gettext_lazy("Changed"),
    "retire_priority_class": gettext_lazy("Retired"),
    "restore_priority_class": gettext_lazy("Brought back"),
    # As the back office calls them.
    "create_priorityclass": gettext_lazy("Created"),
    "change_priorityclass": gettext_lazy("Changed"),
}


@register.filter
def knob_label(name: str) -> str:
    """What people call a knob; its own name where no page sets it."""
    return str(KNOBS[name].label) if name in KNOBS else name


@register.simple_tag
def knob_before(change: KnobChange, names: Mapping[int, str]) -> str:
    """The value of a knob before a change."""
    return _says(change.knob, change.before, names)


@register.simple_tag
def knob_after(change: KnobChange, names: Mapping[int, str]) -> str:
    """The value of a knob after a change."""
    return _says(change.knob, change.after, names)


def _says(name: str, value: object, names: Mapping[int, str]) -> str:
    return KNOBS[name].says(value, names) if name in KNOBS else str(value)


@register.simple_tag
def tried_jobs(jobs: Sequence[TriedJob]) -> SafeString | str:
    """The first few jobs of a trial, as links to those that are still known."""
    shown = [
        format_html('<a href="{}">{}</a>', reverse("job", args=[job.public_id]), job.name)
        if job.public_id
        else job.name
        for job in jobs[:MOST_NAMED]
    ]
    listed = format_html_join(", ", "{}", ((job,) for job in shown))
    return _with_more(listed, len(jobs) - len(shown))


@register.simple_tag
def kept_title(entry: Upcoming) -> str:
    """What keeps nodes free, in one phrase."""
    if entry.kind == WINDOW:
        return entry.note or _("Maintenance")
    return _("Block %(name)s") % {"name": entry.name}


@register.simple_tag
def node_links(names: Sequence[str]) -> SafeString | str:
    """The first few nodes, as links."""
    links = ((reverse("node", args=[name]), name) for name in names[:MOST_NAMED])
    return _with_more(format_html_join(", ", '<a href="{}">{}</a>', links), len(names) - MOST_NAMED)


@register.simple_tag
def kept_action(event: AuditEvent) -> str:
    """What an operator did to a window or block."""
    return str(ACTIONS.get(event.action, event.action))


@register.simple_tag
def kept_event(event: AuditEvent) -> str:
    """What it was before, where it differs, and what it is then: times, nodes and words."""
    before, after = _kept_words(event.before), _kept_words(event.after)
    return " → ".join(words for words in dict.fromkeys((before, after)) if words)


def _kept_words(plain: Mapping[str, object]) -> str:
    if "from" not in plain:
        return ""
    nodes = plain.get("nodes") or [f"{node}={n}" for node, n in plain.get("gpus", {}).items()]
    listed = ", ".join(nodes[:MOST_NAMED]) + (" …" if len(nodes) > MOST_NAMED else "")
    said = [plain.get("name") or plain.get("note"), plain.get("tenant"), listed]
    times = f"{_local(plain['from'])} – {_local(plain['until'])}"
    return ", ".join([*(str(part) for part in said if part), times])


def _local(text: object) -> str:
    return f"{timezone.localtime(datetime.fromisoformat(str(text))):%Y-%m-%d %H:%M}"


@register.simple_tag
def who_may(row: PriorityRow) -> str:
    """Which tenants may use a class."""
    if not row.barred:
        return _("all tenants")
    if len(row.barred) <= len(row.allowed):
        return _("all but %(tenants)s") % {"tenants": _names(row.barred)}
    return _names(row.allowed) or _("no tenant")


def _names(slugs: Sequence[str]) -> str:
    return ", ".join(slugs[:MOST_NAMED]) + (" …" if len(slugs) > MOST_NAMED else "")


@register.simple_tag
def cluster_action(event: AuditEvent) -> str:
    """What was done to a cluster."""
    return str(CLUSTER_ACTIONS.get(event.action, event.action))


@register.simple_tag
def priority_action(event: AuditEvent) -> str:
    """What was done to a priority class."""
    return str(PRIORITY_ACTIONS.get(event.action, event.action))


@register.simple_tag
def priority_event(event: AuditEvent) -> str:
    """The class as it was before, where it differs, and then."""
    both = (_priority_words(event.before), _priority_words(event.after))
    return " → ".join(words for words in dict.fromkeys(both) if words)


def _priority_words(plain: Mapping[str, object]) -> str:
    facts = [str(plain.get(name, "")) for name in ("name", "value", "description")]
    said = [fact for fact in facts if fact]
    if str(plain.get("is_default")) == "True":
        said.append(_("default"))
    return ", ".join(said)


@register.simple_tag
def budget_says(use: BudgetUse) -> str:
    """What is used of a budget, and how long the rest lasts."""
    shown = {
        "used": number_format(use.used, 0),
        "hours": number_format(use.budget.gpu_hours, 0),
        "left": number_format(use.left, 0),
    }
    if not use.has_begun:
        return _("%(hours)s GPU-hours; it has not begun.") % shown
    said = _("%(used)s of %(hours)s GPU-hours used, %(left)s left.") % shown
    return f"{said} {_pace(use)}"


def _pace(use: BudgetUse) -> str:
    if not use.left:
        return _("The hours are used up: no job starts on them.")
    if use.ends_at is None:
        return _("At the pace so far the hours will not end.")
    if use.ends_at >= use.budget.until_at:
        return _("At this pace the hours last to its end.")
    shown = {"day": f"{timezone.localtime(use.ends_at):%Y-%m-%d}", "days": use.early_days}
    if not use.early_days:
        return _("At this pace the hours end on %(day)s, before the budget does.") % shown
    early = ngettext(
        "At this pace the hours end on %(day)s, %(days)d day early.",
        "At this pace the hours end on %(day)s, %(days)d days early.",
        use.early_days,
    )
    return early % shown


@register.simple_tag
def budget_line(use: BudgetUse) -> dict[str, str]:
    """Where the line of use and the budget's level go, in a picture of 100 by 40."""
    budget = use.budget
    whole, most = budget.until_at - budget.from_at, max(budget.gpu_hours, use.used, 1) * 1.05

    def y(hours: float) -> str:
        return f"{40 - 40 * hours / most:.2f}"

    points = (f"{100 * ((at - budget.from_at) / whole):.2f},{y(hours)}" for at, hours in use.course)
    return {"top": y(budget.gpu_hours), "points": " ".join(points)}


def _with_more(listed: SafeString, more: int) -> SafeString:
    if more <= 0:
        return listed
    others = ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return format_html("{} {}", listed, others)


@register.simple_tag
def before_after(pair: tuple[int, int]) -> SafeString:
    """A number of GPUs before and after a change, with the difference; one number without one."""
    before, after = pair
    if before == after:
        return format_html("{}", number_format(after, force_grouping=True))
    word = _("%(gpus)s more") if after > before else _("%(gpus)s fewer")
    return format_html(
        '<span class="nowrap">{} → <strong>{}</strong></span><span class="under {}">{}</span>',
        number_format(before, force_grouping=True),
        number_format(after, force_grouping=True),
        "gain" if after > before else "loss",
        word % {"gpus": number_format(abs(after - before), force_grouping=True)},
    )
