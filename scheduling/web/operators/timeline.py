"""Where what is planned stands on a picture of the next two weeks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.utils import timezone

from scheduling.reports.upcoming import Upcoming

DAYS = 14
ROW, BAR, TOP, FOOT = 34, 12, 4, 18  # pixels
MIDDLE = 50  # hundredths of the width: words of what begins further right end with their bar


@dataclass(frozen=True, slots=True)
class Bar:
    """x, width: hundredths of the picture's width. y: of the words' ground line."""

    entry: Upcoming
    x: float
    width: float
    y: int

    @property
    def is_late(self) -> bool:
        return self.x > MIDDLE

    @property
    def label_x(self) -> float:
        return min(100.0, self.x + self.width) if self.is_late else self.x

    @property
    def bar_y(self) -> int:
        return self.y + 5


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    day: date
    is_named: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    now_x: float
    height: int
    later: int  # what begins behind the picture's end

    @property
    def ground(self) -> int:
        return self.height - FOOT


def draw_timeline(entries: Sequence[Upcoming], at: datetime) -> Timeline:
    """From the reader's midnight before `at` (cluster clock) on."""
    today = timezone.localdate(at)
    first = _midnight(today)
    whole = _midnight(today + timedelta(days=DAYS)) - first

    def x(instant: datetime) -> float:
        return min(100.0, max(0.0, 100 * ((instant - first) / whole)))

    shown = [entry for entry in entries if x(entry.from_at) < 100]  # noqa: PLR2004 - the right edge
    bars = tuple(
        Bar(
            entry,
            x(entry.from_at),
            max(0.8, x(entry.until_at) - x(entry.from_at)),
            TOP + row * ROW + 12,
        )
        for row, entry in enumerate(shown)
    )
    days = [today + timedelta(days=number) for number in range(DAYS)]
    ticks = tuple(Tick(x(_midnight(day)), day, n % 3 == 0) for n, day in enumerate(days))
    height = TOP + ROW * len(bars) + FOOT
    return Timeline(bars, ticks, x(at), height, len(entries) - len(shown))


def by_day(entries: Sequence[Upcoming], at: datetime) -> list[tuple[date, list[Upcoming]]]:
    """The entries under the reader's day that they begin on; what is under way is today's."""
    today = timezone.localdate(at)
    days: dict[date, list[Upcoming]] = {}
    for entry in entries:
        days.setdefault(max(today, timezone.localdate(entry.from_at)), []).append(entry)
    return sorted(days.items())


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=timezone.get_current_timezone())
