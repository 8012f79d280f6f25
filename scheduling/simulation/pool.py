"""One pool of equal GPUs, first come, first served: the textbook policies, fast.

At one instant jobs end first, then those submitted join the queue, then one pass starts jobs. On
one node, one flavor and one reservation the engine decides the same, start for start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush

import numpy as np

from scheduling.engine.arrays import IntArray

COMPACT_FROM = 64
"""A queue with fewer places is not worth compacting."""


class PoolPolicy(StrEnum):
    """How a pass goes through the queue."""

    FIFO = "fifo"
    FIRSTFIT = "firstfit"
    EASY = "easy"


@dataclass(frozen=True, slots=True)
class PoolJob:
    """A job of a pool. estimate: what the scheduler believes, never less than the run time."""

    submit: int
    runtime: int
    gpus: int
    estimate: int
    tenant: str = ""


def run_pool(jobs: Sequence[PoolJob], gpus: int, policy: PoolPolicy) -> list[int | None]:
    """When each job starts in a pool of `gpus`; None for one that asks for none, or for too many.

    jobs: in order of submission, ties in row order.
    """
    return _Pool(jobs, gpus, policy).run()


class _Pool:
    def __init__(self, jobs: Sequence[PoolJob], gpus: int, policy: PoolPolicy) -> None:
        self._jobs = jobs
        self._total = self._free = gpus
        self._wide = np.array([job.gpus for job in jobs], dtype=np.int64)
        self._estimate = np.array([job.estimate for job in jobs], dtype=np.int64)
        self._queue = _Queue(len(jobs))
        self._ends: list[tuple[int, int]] = []
        self._running: dict[int, int] = {}
        self._starts: list[int | None] = [None] * len(jobs)
        self._pass: Callable[[int], None] = {
            PoolPolicy.FIFO: self._fifo,
            PoolPolicy.FIRSTFIT: self._first_fit,
            PoolPolicy.EASY: self._easy,
        }[policy]

    def run(self) -> list[int | None]:
        accepted = [index for index, job in enumerate(self._jobs) if 1 <= job.gpus <= self._total]
        position = 0
        while position < len(accepted) or self._ends:
            instants = [self._ends[0][0]] if self._ends else []
            if position < len(accepted):
                instants.append(self._jobs[accepted[position]].submit)
            now = min(instants)
            while self._ends and self._ends[0][0] == now:
                self._end(heappop(self._ends)[1])
            while position < len(accepted) and self._jobs[accepted[position]].submit == now:
                self._queue.join(accepted[position])
                position += 1
            self._pass(now)
        return self._starts

    def _end(self, index: int) -> None:
        self._free += self._jobs[index].gpus
        del self._running[index]

    def _start(self, index: int, now: int) -> None:
        job = self._jobs[index]
        self._free -= job.gpus
        self._starts[index] = now
        self._running[index] = now + job.estimate
        heappush(self._ends, (now + job.runtime, index))

    def _fifo(self, now: int) -> None:
        while (head := self._queue.head()) is not None and self._wide[head] <= self._free:
            self._queue.leave_head()
            self._start(head, now)

    def _first_fit(self, now: int) -> None:
        waiting = self._queue.waiting()
        place = 0
        while self._free and place < len(waiting):
            fits = np.flatnonzero(self._wide[waiting[place:]] <= self._free)
            if not len(fits):
                return
            place += int(fits[0])
            self._queue.leave(place)
            self._start(int(waiting[place]), now)
            place += 1

    def _easy(self, now: int) -> None:
        self._fifo(now)
        head = self._queue.head()
        if head is None or not self._free:
            return
        shadow, spare = self._reservation(head)
        waiting = self._queue.waiting()
        wide, ends = self._wide[waiting], now + self._estimate[waiting]
        place = 1
        while self._free and place < len(waiting):
            ok = (wide[place:] <= self._free) & ((ends[place:] <= shadow) | (wide[place:] <= spare))
            fits = np.flatnonzero(ok)
            if not len(fits):
                return
            place += int(fits[0])
            if ends[place] > shadow:
                spare -= int(wide[place])
            self._queue.leave(place)
            self._start(int(waiting[place]), now)
            place += 1

    def _reservation(self, head: int) -> tuple[int, int]:
        """When the head can start at the latest, and the GPUs then left over."""
        need, free, shadow = int(self._wide[head]), self._free, 0
        for end, index in sorted((end, index) for index, end in self._running.items()):
            if free >= need and end > shadow:
                break
            free += self._jobs[index].gpus
            shadow = end
        return shadow, free - need


class _Queue:
    """Indexes of waiting jobs in order; those that left are blanks until they are swept out."""

    def __init__(self, most: int) -> None:
        self._places = np.zeros(most, dtype=np.int64)
        self._first = self._end = 0
        self._view: IntArray | None = None
        self._left: list[int] = []

    def join(self, index: int) -> None:
        self._sweep()
        self._places[self._end] = index
        self._end += 1

    def head(self) -> int | None:
        self._sweep()
        return int(self._places[self._first]) if self._first < self._end else None

    def leave_head(self) -> None:
        self._sweep()
        self._first += 1

    def waiting(self) -> IntArray:
        """Waiting jobs in order; `leave` counts in this array until something else is asked."""
        self._sweep()
        self._view = self._places[self._first : self._end].copy()
        return self._view

    def leave(self, place: int) -> None:
        self._left.append(place)

    def _sweep(self) -> None:
        if not self._left or self._view is None:
            return
        kept = np.delete(self._view, self._left)
        self._first = self._end - len(kept)
        self._places[self._first : self._end] = kept
        self._left = []
