"""The knobs of a policy in people's words: what each does, its unit, and the field to set it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.engine.policy import EndEstimate, Order, Packing
from scheduling.web.spans import SpanField, span_text
from tenants.models import PriorityClass

MOST = 100_000
PER_PERCENT = 10  # thousandths


class PercentField(forms.DecimalField):
    """Thousandths, written as a percentage."""

    def prepare_value(self, value: Any) -> Any:
        return Decimal(value) / PER_PERCENT if isinstance(value, int) else value

    def clean(self, value: Any) -> int:
        return int(super().clean(value) * PER_PERCENT)


class PriorityField(forms.TypedChoiceField):
    """The value of a priority class, by its name; None for nobody's."""

    def __init__(self, *, names: Mapping[int, str], **kwargs: Any) -> None:
        choices = [("", _("none")), *((value, _named(value, names)) for value in sorted(names))]
        super().__init__(choices=choices, coerce=int, empty_value=None, required=False, **kwargs)


def _named(value: int, names: Mapping[int, str]) -> str:
    return f"{names[value]} ({value})" if names.get(value) else str(value)


def priority_names(*values: int | None) -> dict[int, str]:
    """The name of each priority; of `values` without a class too, which have none. One query."""
    names = dict.fromkeys((value for value in values if value is not None), "")
    return names | dict(PriorityClass.objects.values_list("value", "name"))


@dataclass(frozen=True, slots=True)
class Knob:
    """make: its form field, given label and the priorities' names; says: a value in words."""

    name: str
    label: Promise
    meaning: Promise
    make: Callable[[Promise, Mapping[int, str]], forms.Field]
    says: Callable[[Any, Mapping[int, str]], str]


def _choice(name: str, label: Promise, meaning: Promise, words: Mapping[str, Promise]) -> Knob:
    return Knob(
        name,
        label,
        meaning,
        lambda label, _names: forms.ChoiceField(label=label, choices=list(words.items())),
        lambda value, _names: str(words.get(value, value)),
    )


def _count(name: str, label: Promise, meaning: Promise) -> Knob:
    return Knob(
        name,
        label,
        meaning,
        lambda label, _names: forms.IntegerField(label=label, min_value=0, max_value=MOST),
        lambda value, _names: number_format(value),
    )


def _span(name: str, label: Promise, meaning: Promise, *, optional: bool = False) -> Knob:
    return Knob(
        name,
        label,
        meaning,
        lambda label, _names: SpanField(label=label, required=not optional),
        lambda value, _names: _("none") if value is None else span_text(value),
    )


GROUPS: tuple[tuple[Promise, tuple[Knob, ...]], ...] = (
    (
        gettext_lazy("Whose turn it is"),
        (
            _choice(
                "order",
                gettext_lazy("Order"),
                gettext_lazy("Which waiting job is looked at first."),
                {
                    Order.EXPANSION: gettext_lazy("priority, then longest wait for its length"),
                    Order.FIFO: gettext_lazy("priority, then who came first"),
                    Order.FAIR: gettext_lazy("tenant with the lowest share, then priority"),
                },
            ),
            Knob(
                "strict",
                gettext_lazy("Strict order"),
                gettext_lazy(
                    "Nothing starts before an earlier job that waits for the same GPU model, even "
                    "where it would delay nobody."
                ),
                lambda label, _names: forms.BooleanField(label=label, required=False),
                lambda value, _names: _("on") if value else _("off"),
            ),
            _span(
                "aging_walltime",
                gettext_lazy("Longest length that counts"),
                gettext_lazy(
                    "In the order by wait for its length a longer job, or one without a limit, "
                    "counts as this long, so that it does not stay behind short ones for ever."
                ),
            ),
            Knob(
                "history_weight",
                gettext_lazy("Weight of past use, in %"),
                gettext_lazy(
                    "How much past use counts beside present use in the order of lowest shares. 0: "
                    "not at all."
                ),
                lambda label, _names: PercentField(
                    label=label, min_value=0, max_value=1000, decimal_places=1
                ),
                lambda value, _names: f"{number_format(Decimal(value) / PER_PERCENT)} %",
            ),
            _span(
                "half_life",
                gettext_lazy("Half-life of past use"),
                gettext_lazy("After this long, past use counts half."),
            ),
        ),
    ),
    (
        gettext_lazy("Where it goes"),
        (
            _choice(
                "packing",
                gettext_lazy("Packing"),
                gettext_lazy("Which of the nodes that could take a job does."),
                {
                    Packing.BEST_FIT: gettext_lazy("the fullest that it fits on"),
                    Packing.FGD: gettext_lazy("where it splinters least"),
                    Packing.MUSTER: gettext_lazy("where the room left is worth most"),
                },
            ),
        ),
    ),
    (
        gettext_lazy("Promises and backfill"),
        (
            _count(
                "reservations",
                gettext_lazy("Promised places"),
                gettext_lazy(
                    "Jobs of each GPU model that do not fit and are promised a place; others start "
                    "only if they do not delay it. 0: whatever fits starts."
                ),
            ),
            _choice(
                "end_estimate",
                gettext_lazy("Expected ends"),
                gettext_lazy("When a running job is taken to end."),
                {
                    EndEstimate.LIMIT: gettext_lazy("at its limit"),
                    EndEstimate.PROGRESS: gettext_lazy("as its progress says"),
                },
            ),
            _span(
                "default_walltime",
                gettext_lazy("Limit where none is given"),
                gettext_lazy(
                    "What a job without a longest run is planned with. None: it may run for ever, "
                    "and nothing is backfilled behind it."
                ),
                optional=True,
            ),
            _span(
                "hold_expiry",
                gettext_lazy("Devices are kept for"),
                gettext_lazy(
                    "How long GPUs are kept free for a job while others give theirs back."
                ),
            ),
        ),
    ),
    (
        gettext_lazy("Making room"),
        (
            _count(
                "max_preemptions",
                gettext_lazy("Most stops of one job"),
                gettext_lazy("A job that was stopped so often is left alone. In times."),
            ),
            _span(
                "min_run",
                gettext_lazy("Shortest undisturbed run"),
                gettext_lazy("Nobody is stopped before having run this long."),
            ),
            _span(
                "max_grace",
                gettext_lazy("Longest time to save work"),
                gettext_lazy("What a job that is stopped gets at most to save its work."),
            ),
            _span(
                "checkpoint_interval",
                gettext_lazy("Work lost by a stop"),
                gettext_lazy(
                    "What is reckoned for a job that never said when it last saved its work."
                ),
            ),
            _span(
                "restart",
                gettext_lazy("Time to start again"),
                gettext_lazy("What is reckoned besides for a stopped job to get going again."),
            ),
            Knob(
                "across",
                gettext_lazy("Stops across tenants from"),
                gettext_lazy(
                    "From this priority on a job may stop lower ones of other tenants. None: only "
                    "those of its own."
                ),
                lambda label, names: PriorityField(label=label, names=names),
                lambda value, names: _("none") if value is None else _named(value, names),
            ),
        ),
    ),
)
KNOBS = {knob.name: knob for _group, knobs in GROUPS for knob in knobs}
