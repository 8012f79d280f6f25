"""One pool of equal GPUs: what the engine decides on one node, in a fraction of the time.

At one instant jobs end first, then those submitted join the queue, then one pass starts jobs. In
the order `fifo` these are the textbook policies: first come first served (`strict`), first fit (no
reservation) and EASY backfill (one; Lifka, JSSPP 1995).
"""

from collections.abc import Sequence
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


class _Pool:
    def __init__(
        self, jobs: Sequence[StreamJob], gpus: int, policy: Policy, watch: Watch | None
    ) -> None:
        self._jobs = jobs
        self._total = self._free = gpus
        self._policy = policy
        self._watch = watch
        self._wide = np.array([job.gpus for job in jobs], dtype=np.int64)
        self._submit = np.array([job.submit for job in jobs], dtype=np.int64)
        self._estimate = np.array([job.estimate for job in jobs], dtype=np.int64)
        self._aging = np.clip(self._estimate, 1, max(1, policy.aging_walltime))
        self._queue = _Queue(len(jobs))
        self._ends: list[tuple[int, int]] = []
        self._believed: dict[int, int] = {}
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
            self._pass(now)
        return self._outcomes

    def _end(self, index: int) -> None:
        self._free += self._jobs[index].gpus
        del self._believed[index]
        self._ended += 1
        if self._watch is not None:
            self._watch(self._ended)

    def _start(self, index: int, now: int) -> None:
        job = self._jobs[index]
        self._free -= job.gpus
        self._outcomes[index] = Outcome(job, ((now, now + job.runtime),))
        self._believed[index] = now + job.estimate
        heappush(self._ends, (now + job.runtime, index))

    def _pass(self, now: int) -> None:
        if not self._free or not self._queue:
            return
        waiting = self._queue.waiting()
        if self._policy.order == Order.EXPANSION:
            turns = self._by_expansion(waiting, now)
            started = self._start_in_turn(waiting[turns], now)
            self._queue.leave([int(turns[place]) for place in started])
        else:
            self._queue.leave(self._start_in_turn(waiting, now))

    def _by_expansion(self, waiting: IntArray, now: int) -> IntArray:
        """Places in the queue, largest expansion first, ties as they stand."""
        aging = self._aging[waiting]
        order: IntArray = np.argsort(
            -((now - self._submit[waiting] + aging) / aging), kind="stable"
        )
        return order

    def _start_in_turn(self, waiting: IntArray, now: int) -> list[int]:
        """Start what may start, in this order; returns the places of those in `waiting`."""
        started = self._start_heads(waiting, now)
        head = len(started)
        if head == len(waiting) or not self._free or self._policy.strict:
            return started
        behind = waiting[head + 1 :]
        shadow, spare = NEVER, 0
        if self._policy.reservations:
            shadow, spare = self._reservation(int(waiting[head]))
        return started + [head + 1 + place for place in self._backfill(behind, now, shadow, spare)]

    def _start_heads(self, waiting: IntArray, now: int) -> list[int]:
        """Start those at the front, up to the first that does not fit."""
        place = 0
        while place < len(waiting) and self._wide[waiting[place]] <= self._free:
            self._start(int(waiting[place]), now)
            place += 1
        return list(range(place))

    def _backfill(self, behind: IntArray, now: int, shadow: int, spare: int) -> list[int]:
        """Start what is over by `shadow`, or needs no more than is spare then."""
        started: list[int] = []
        wide, ends = self._wide[behind], now + self._estimate[behind]
        place = 0
        while self._free and place < len(behind):
            ok = (wide[place:] <= self._free) & ((ends[place:] <= shadow) | (wide[place:] <= spare))
            first = int(ok.argmax())
            if not ok[first]:
                break
            place += first
            if ends[place] > shadow:
                spare -= int(wide[place])
            self._start(int(behind[place]), now)
            started.append(place)
            place += 1
        return started

    def _reservation(self, head: int) -> tuple[int, int]:
        """When the head can start at the latest, and the GPUs then left over."""
        need, free, shadow = int(self._wide[head]), self._free, 0
        for end, index in sorted((end, index) for index, end in self._believed.items()):
            if free >= need and end > shadow:
                break
            free += self._jobs[index].gpus
            shadow = end
        return shadow, free - need


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
