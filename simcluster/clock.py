"""Simulated time: a clock that can be sped up, frozen and stepped, and what is due on it."""

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

MAX_SPEED = 1000.0


def rfc3339(at: float) -> str:
    """Whole seconds, rounded down, as Kubernetes writes them: 2026-01-05T08:00:00Z."""
    return datetime.fromtimestamp(int(at), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(at: float) -> str:
    """With microseconds, as Kubernetes writes a MicroTime."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Epoch seconds of an RFC 3339 text; ValueError when it is none."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class Clock:
    """Simulated now, in epoch seconds: base + elapsed wall time x speed.

    While a timed event runs, now is the instant at which it was due, however late it fires; so
    every time stamp is exact at any speed.
    """

    def __init__(self, start: float, *, speed: float = 1.0, frozen: bool = False) -> None:
        self._base = start
        self._since = time.monotonic()
        self._pinned: float | None = None
        self.speed = speed
        self.frozen = frozen

    def now(self) -> float:
        """Simulated epoch seconds."""
        if self._pinned is not None:
            return self._pinned
        return self.reached()

    def reached(self) -> float:
        """Now, whatever event is running."""
        if self.frozen:
            return self._base
        return self._base + (time.monotonic() - self._since) * self.speed

    def stamp(self) -> str:
        """Now, as objects carry it."""
        return rfc3339(self.now())

    def set_rate(self, *, speed: float | None = None, frozen: bool | None = None) -> None:
        """Change how fast time goes; what has passed stays passed."""
        self._rebase(self.reached())
        self.speed = self.speed if speed is None else speed
        self.frozen = self.frozen if frozen is None else frozen

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once. What became due is for the caller to run."""
        self._rebase(self.reached() + seconds)

    def wall_until(self, due: float) -> float | None:
        """Wall seconds until simulated `due`; None when a frozen clock never gets there."""
        return None if self.frozen else max(0.0, (due - self.reached()) / self.speed)

    @contextmanager
    def pinned(self, at: float) -> Iterator[None]:
        """Now is `at` within the block."""
        before, self._pinned = self._pinned, at
        try:
            yield
        finally:
            self._pinned = before

    def _rebase(self, now: float) -> None:
        self._base = now
        self._since = time.monotonic()


@dataclass(order=True, slots=True)
class Timer:
    """Something to do at `due`; of several at one instant the lowest rank goes first."""

    due: float
    rank: int
    seq: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.action = None


class Timers:
    """A heap of timers ordered by (due, rank, seq), so that ties have one answer."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._seq = itertools.count()

    def add(self, due: float, rank: int, *, action: Callable[[], None]) -> Timer:
        timer = Timer(due, rank, next(self._seq), action)
        heapq.heappush(self._heap, timer)
        return timer

    def next_due(self) -> float | None:
        while self._heap and self._heap[0].action is None:
            heapq.heappop(self._heap)
        return self._heap[0].due if self._heap else None

    def pop_due(self, now: float) -> Timer | None:
        """The earliest timer that is due by `now`, taken off the heap."""
        due = self.next_due()
        if due is None or due > now:
            return None
        return heapq.heappop(self._heap)
