"""The capacity calendar of one flavor as shapes: promised GPUs, day by day, and one request."""

from dataclasses import dataclass
from datetime import date, timedelta

from tenants.models.quota_request import QuotaTerms
from tenants.snapshots import Calendar

TOP, GROUND = 8, 112  # of the picture, in pixels from above; its days are written under it
LEAST_DAYS, MOST_DAYS = 120, 400
AFTER = timedelta(days=14)  # shown behind the end of what is looked at
MOST_LABELS = 6
ROOM = 85  # hundredths of the width: a label further right would be cut off on a phone


@dataclass(frozen=True, slots=True)
class Block:
    """kind: promised, asked, or over where more is promised than there is.

    x, width: hundredths of the picture's width, so that a narrow one keeps its letters.
    """

    kind: str
    x: float
    y: int
    width: float
    height: int


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Days on which nothing changes. free: without the request; left: with it."""

    first: date
    last: date
    promised: int
    free: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a calendar looks like, and the same as rows. tightest: of the request's own days."""

    calendar: Calendar
    blocks: tuple[Block, ...]
    labels: tuple[Label, ...]
    stretches: tuple[Stretch, ...]
    capacity_y: int
    asked: int
    tightest: date | None

    @property
    def free(self) -> int:
        """GPUs free on the tightest day, before the request is granted."""
        return max(0, self._balance)

    @property
    def left(self) -> int:
        """The same, after it."""
        return max(0, self._balance - self.asked)

    @property
    def short(self) -> int:
        """GPUs that are lacking then."""
        return max(0, self.asked - self._balance)

    @property
    def _balance(self) -> int:
        return self.calendar.free_on(self.tightest) if self.tightest else 0


def draw(calendar: Calendar, today: date, terms: QuotaTerms | None = None) -> Picture:
    """The calendar from today on, with the days of `terms` hatched in."""
    last = _last(calendar, today, terms)
    stretches = tuple(_stretches(calendar, today, last, terms))
    most = max([calendar.installed, *(_top(each) for each in stretches), 1])
    days = (last - today).days + 1

    def x(day: date) -> float:
        return 100 * (day - today).days / days

    def y(gpus: int) -> int:
        return GROUND - round((GROUND - TOP) * gpus / most)

    blocks = []
    for each in stretches:
        at, width = x(each.first), x(each.last + timedelta(days=1)) - x(each.first)
        kind = "over" if each.free < 0 else "promised"
        blocks.append(Block(kind, at, y(each.promised), width, GROUND - y(each.promised)))
        if each.left < each.free:
            top = y(_top(each))
            blocks.append(Block("asked", at, top, width, y(each.promised) - top))
    first, end = (max(today, terms.starts_on), terms.ends_on) if terms else (today, today)
    return Picture(
        calendar=calendar,
        blocks=tuple(blocks),
        labels=tuple(Label(x(day), day) for day in _label_days(today, last) if x(day) < ROOM),
        stretches=stretches,
        capacity_y=y(calendar.installed),
        asked=terms.gpus if terms else 0,
        tightest=calendar.tightest(first, max(first, end)) if terms else None,
    )


def _last(calendar: Calendar, today: date, terms: QuotaTerms | None) -> date:
    """The last day that is shown: behind everything that ends, within reason."""
    ends = [each.last for each in calendar.promises] + ([terms.ends_on] if terms else [])
    wanted = max([today + timedelta(days=LEAST_DAYS), *(day + AFTER for day in ends)])
    return min(wanted, today + timedelta(days=MOST_DAYS))


def _stretches(
    calendar: Calendar, today: date, last: date, terms: QuotaTerms | None
) -> list[Stretch]:
    """The request's first and last day cut a stretch in two as any other promise does."""
    levels = dict(calendar.profile(today, last))
    if terms:
        cuts = {terms.starts_on, terms.ends_on + timedelta(days=1)} - levels.keys()
        levels |= {day: calendar.promised_on(day) for day in cuts if today < day <= last}
    days = sorted(levels)
    afters = [*days[1:], last + timedelta(days=1)]
    return [
        _stretch(calendar, day, after - timedelta(days=1), levels[day], terms)
        for day, after in zip(days, afters, strict=True)
    ]


def _stretch(
    calendar: Calendar, first: date, last: date, promised: int, terms: QuotaTerms | None
) -> Stretch:
    free = calendar.installed - promised
    asked = terms.gpus if terms and terms.starts_on <= first <= terms.ends_on else 0
    return Stretch(first=first, last=last, promised=promised, free=free, left=free - asked)


def _top(stretch: Stretch) -> int:
    return stretch.promised + stretch.free - stretch.left


def _label_days(today: date, last: date) -> list[date]:
    """The first days of months, as many as can be read."""
    months, day = [], today.replace(day=1)
    while (day := (day + timedelta(days=32)).replace(day=1)) <= last:
        months.append(day)
    step = -(-len(months) // MOST_LABELS) or 1
    return months[::step]
