"""One pool of equal GPUs: what the engine decides on one node, in a fraction of the time.

At one instant jobs end first, then those submitted join the queue, then one pass starts jobs. In
the order `fifo` these are the textbook policies: first come first served (`strict`), first fit (no
reservation) and EASY backfill (one; Lifka, JSSPP 1995).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from scheduling.engine.arrays import NEVER, IntArray
from scheduling.engine.policy import Order, Policy
from scheduling.simulation.outcome import Outcome, StreamJob, Watch


def can_run(policy: Policy) -> bool:
    """Whether the pool knows this policy; every other one needs the engine itself."""
    return policy.order in {Order.FIFO, Order.EXPANSION} and policy.reservations in {0, 1}


def run_pool(
    jobs: Sequence[StreamJob], gpus: int, policy: Policy, *, watch: Watch | None = None
) -> list[Outcome | None]:
    """What becomes of each job in a pool of `gpus`; None for one wider than it, or without GPUs.

    jobs: in order of submission, ties in row order. Raises ValueError for a policy that the pool
    does not know.
    """
    if not can_run(policy):
        raise ValueError(f"a pool knows no order={policy.order} reservations={policy.reservations}")
    return _Pool(jobs, gpus, policy, watch).run()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting jobs in order of submission, as arrays of equal length."""

    submit: IntArray
    gpus: IntArray
    estimate: IntArray

    def at(self, places: IntArray) -> "Waiting":
        """Those at these places, in this order."""
        return Waiting(self.submit[places], self.gpus[places], self.estimate[places])


@dataclass(frozen=True, slots=True)
class Promised:
    """The place of a waiting job that is promised room from `start` on; GPUs left over then."""

    place: int
    start: int
    spare: int


class Pass:
    """One pass over the queue of a pool at one instant.

    stays: (end that is believed, GPUs) of each running job; read only if somebody is promised room.
    """

    promise: Promised | None = None

    def __init__(
        self, policy: Policy, now: int, free: int, stays: Callable[[], Iterable[tuple[int, int]]]
    ) -> None:
        self._policy = policy
        self._now = now
        self._free = free
        self._stays = stays
        self._started: list[tuple[int, int]] = []

    def starts(self, waiting: Waiting) -> list[int]:
        """Places of the jobs that start now, in the order in which they are looked at."""
        if self._policy.order != Order.EXPANSION:
            return self._in_turn(waiting)
        turns = self._by_expansion(waiting)
        started = self._in_turn(waiting.at(turns))
        if self.promise is not None:
            self.promise = replace(self.promise, place=int(turns[self.promise.place]))
        return [int(turns[place]) for place in started]

    def _by_expansion(self, waiting: Waiting) -> IntArray:
        """Places, largest expansion first, ties as they stand."""
        aging = np.clip(waiting.estimate, 1, max(1, self._policy.aging_walltime))
        expansion = (self._now - waiting.submit + aging) / aging
        order: IntArray = np.argsort(-expansion, kind="stable")
        return order

    def _in_turn(self, waiting: Waiting) -> list[int]:
        head = self._front(waiting)
        started = list(range(head))
        if head == len(waiting.gpus) or not self._free or self._policy.strict:
            return started
        shadow, spare = NEVER, 0
        if self._policy.reservations:
            shadow, spare = self._reservation(int(waiting.gpus[head]))
            self.promise = Promised(head, shadow, spare)
        return started + self._backfill(waiting, head + 1, shadow, spare)

    def _front(self, waiting: Waiting) -> int:
        """Start those at the front; returns the place of the first that does not fit."""
        place = 0
        while place < len(waiting.gpus) and waiting.gpus[place] <= self._free:
            self._start(waiting, place)
            place += 1
        return place

    def _backfill(self, waiting: Waiting, place: int, shadow: int, spare: int) -> list[int]:
        """Start what is over by `shadow`, or needs no more than is spare then."""
        started: list[int] = []
        gpus, ends = waiting.gpus, self._now + waiting.estimate
        while self._free and place < len(gpus):
            ok = (gpus[place:] <= self._free) & ((ends[place:] <= shadow) | (gpus[place:] <= spare))
            first = int(ok.argmax())
            if not ok[first]:
                break
            place += first
            if ends[place] > shadow:
                spare -= int(gpus[place])
            self._start(waiting, place)
            started.append(place)
            place += 1
        return started

    def _start(self, waiting: Waiting, place: int) -> None:
        gpus = int(waiting.gpus[place])
        self._free -= gpus
        self._started.append((self._now + int(waiting.estimate[place]), gpus))

    def _reservation(self, need: int) -> tuple[int, int]:
        """When so many GPUs are free at the latest, and how many are then left over."""
        free, shadow = self._free, 0
        for end, gpus in sorted([*self._stays(), *self._started]):
            if free >= need and end > shadow:
                break
            free += gpus
            shadow = end
        return shadow, free - need


class _Pool:
    def __init__(
        self, jobs: Sequence[StreamJob], gpus: int, policy: Policy, watch: Watch | None
    ) -> None:
        self._jobs = jobs
        self._total = self._free = gpus
        self._policy = policy
        self._watch = watch
        self._asked = waiting_of(jobs)
        self._queue = _Queue(len(jobs))
        self._ends: list[tuple[int, int]] = []
        self._stays: dict[int, tuple[int, int]] = {}
        self._outcomes: list[Outcome | None] = [None] * len(jobs)
        self._ended = 0

    def run(self) -> list[Outcome | None]:
        accepted = [index for index, job in enumerate(self._jobs) if 1 <= job.gpus <= self._total]
        accepted.reverse()
        while accepted or self._ends:
            instants = [self._ends[0][0]] if self._ends else []
            if accepted:
                instants.append(self._jobs[accepted[-1]].submit)
            now = min(instants)
            while self._ends and self._ends[0][0] == now:
                self._end(heappop(self._ends)[1])
            while accepted and self._jobs[accepted[-1]].submit == now:
                self._queue.join(accepted.pop())
            if self._free and self._queue:
                self._pass(now)
        return self._outcomes

    def _end(self, index: int) -> None:
        self._free += self._jobs[index].gpus
        del self._stays[index]
        self._ended += 1
        if self._watch is not None:
            self._watch(self._ended)

    def _start(self, index: int, now: int) -> None:
        job = self._jobs[index]
        self._free -= job.gpus
        self._outcomes[index] = Outcome(job, ((now, now + job.runtime),))
        self._stays[index] = now + job.estimate, job.gpus
        heappush(self._ends, (now + job.runtime, index))

    def _pass(self, now: int) -> None:
        waiting = self._queue.waiting()
        chosen = Pass(self._policy, now, self._free, self._stays.values)
        places = chosen.starts(self._asked.at(waiting))
        for index in waiting[places].tolist():
            self._start(index, now)
        self._queue.leave(places)


def waiting_of(jobs: Iterable[StreamJob]) -> Waiting:
    """The jobs as arrays."""
    rows = [(job.submit, job.gpus, job.estimate) for job in jobs]
    return Waiting(*np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy())


class _Queue:
    """Indexes of waiting jobs in the order of their submission."""

    def __init__(self, most: int) -> None:
        self._places = np.zeros(most, dtype=np.int64)
        self._first = self._end = 0

    def __bool__(self) -> bool:
        return self._first < self._end

    def join(self, index: int) -> None:
        self._places[self._end] = index
        self._end += 1

    def waiting(self) -> IntArray:
        """Waiting jobs; a view that holds until some of them leave."""
        return self._places[self._first : self._end]

    def leave(self, places: Sequence[int]) -> None:
        """Those at these places of `waiting` leave; the others move up to the end of the queue."""
        if places:
            kept = np.delete(self.waiting(), places)
            self._first = self._end - len(kept)
            self.waiting()[:] = kept
