"""What would help one waiting job. Each suggestion is tried on the snapshot before it is made."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from scheduling.engine.arrays import NEVER, frozen
from scheduling.engine.course import Course
from scheduling.engine.cycle import verdict_on
from scheduling.engine.explain import (
    SHORTEST_WALLTIME,
    Change,
    ChangeKind,
    higher_levels,
    other_flavors,
    with_change,
)
from scheduling.engine.horizon import duration_of, end_of
from scheduling.engine.jobs import Access, PlacedMember
from scheduling.engine.plan import Hold, Reason, Start
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import PARTS_PER_GPU, Snapshot

RULED_OUT: Final = frozenset(
    {
        Reason.NO_FLAVOR,
        Reason.MEMORY_TOO_SMALL,
        Reason.NEVER_FITS,
        Reason.OVER_CEILING,
        Reason.BUDGET_EXHAUSTED,
    }
)
"""Reasons that no waiting mends."""
ELSEWHERE: Final = frozenset(
    {
        Reason.ON_HOLD,
        Reason.NOT_BEFORE,
        Reason.DEPENDENCY_FAILED,
        Reason.WAITING_FOR_DEPENDENCY,
        Reason.FOREIGN_GATE,
        Reason.MAKING_ROOM,
    }
)
"""Reasons that asking for something else does not touch, or that are about to be over."""
_QUOTA: Final = frozenset({Reason.OVER_CEILING, Reason.QUOTA_EXHAUSTED})
_ROOM: Final = frozenset(
    {Reason.NO_ROOM, Reason.FRAGMENTED, Reason.WOULD_DELAY, Reason.QUOTA_EXHAUSTED}
)
MOST_ENDS: Final = 12
"""Running jobs of which it is tried whether their end would do, the first to end first."""


class Effect(StrEnum):
    """What a suggestion does: the job starts at once, or it may start when its turn comes."""

    STARTS_NOW = "starts_now"
    MAY_START = "may_start"


class Aid(StrEnum):
    """The two suggestions that leave the job as it is; the others are kinds of changes."""

    QUOTA = "quota"
    END = "end"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One thing that would help, and how.

    value: as in `Change`; GPUs to be added to the tenant's guaranteed quota of `flavor` (quota);
    the running job whose end would do (end).
    """

    kind: ChangeKind | Aid
    value: int | str
    effect: Effect
    flavor: int | None = None


def suggestions(snapshot: Snapshot, policy: Policy, job_id: int) -> Iterator[Suggestion]:
    """What would help, the smallest of each kind, each found when it is asked for.

    Raises KeyError if the job is not waiting.
    """
    case = _Case(snapshot, policy, job_id)
    verdict = verdict_on(snapshot, policy, job_id)
    if isinstance(verdict, Start) or verdict.reason in ELSEWHERE:
        return
    if verdict.reason in _QUOTA:
        yield from case.more_quota(verdict)
    ruled_out = verdict.reason in RULED_OUT
    possible = tuple(case.changes(verdict, {*Effect})) if ruled_out else ()
    yield from possible
    for change in case.changes(verdict, {Effect.STARTS_NOW}):
        if change not in possible:
            yield change
    if verdict.reason in _ROOM:
        yield from case.ends()


class _Case:
    def __init__(self, snapshot: Snapshot, policy: Policy, job_id: int) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._job = next(job for job in snapshot.pending if job.id == job_id)

    def changes(self, verdict: Hold, wanted: set[Effect]) -> Iterator[Suggestion]:
        """The smallest change of each kind with one of the effects that are `wanted`."""
        job = self._job
        group = job.groups[0]
        if len(job.groups) == 1:
            yield from self._largest(ChangeKind.MEMBERS, job.min_members - 1, wanted)
            if group.request.kind == Access.WHOLE:
                most = group.request.count - 1
                yield from self._largest(ChangeKind.GPUS_PER_MEMBER, most, wanted)
        preemptible = () if job.preemptible else (Change(ChangeKind.PREEMPTIBLE, 1),)
        for candidates in (
            tuple(other_flavors(self._snapshot, job)),
            tuple(higher_levels(job)),
            self._walltimes(verdict),
            preemptible,
        ):
            for change in candidates:
                effect = self._effect_of(change)
                if effect is not None and effect in wanted:
                    yield Suggestion(change.kind, change.value, effect)
                    break

    def more_quota(self, verdict: Hold) -> Iterator[Suggestion]:
        """The GPUs that its tenant would need more of, in the first flavor that mends it."""
        numbers = dict(verdict.numbers)
        has, asked = numbers.get("free", numbers.get("limit")), numbers.get("asked")
        if not isinstance(has, int) or not isinstance(asked, int):
            return
        gpus = -(-(asked - has) // PARTS_PER_GPU)
        quotas = self._snapshot.quotas
        for flavor in self._job.flavors or range(len(self._snapshot.flavors)):
            nominal = quotas.nominal.copy()
            nominal[self._job.tenant, flavor] += gpus * PARTS_PER_GPU
            more = replace(quotas, nominal=frozen(nominal, nominal.shape, "nominal"))
            effect = self._judged(replace(self._snapshot, quotas=more), RULED_OUT | _QUOTA)
            if effect == Effect.STARTS_NOW or (effect and verdict.reason in RULED_OUT):
                yield Suggestion(Aid.QUOTA, gpus, effect, flavor)
                return

    def ends(self) -> Iterator[Suggestion]:
        """The first running job, by its end, whose end alone lets the job start."""
        snapshot, policy, at = self._snapshot, self._policy, self._snapshot.taken_at
        going = [job for job in snapshot.running if not job.stopping]
        going.sort(key=lambda own: (end_of(own, policy, at), own.id))
        for other in [own for own in going if self._may_matter(own.members)][:MOST_ENDS]:
            course = Course(snapshot)
            course.end([other.id])
            if self._judged(course.snapshot(at), frozenset()) == Effect.STARTS_NOW:
                yield Suggestion(Aid.END, other.id, Effect.STARTS_NOW)
                return

    def _may_matter(self, members: tuple[PlacedMember, ...]) -> bool:
        """Whether any of these members lies on a node of a flavor that the job accepts."""
        flavors = self._job.flavors
        return not flavors or any(
            self._snapshot.node_flavor[member.node] in flavors for member in members
        )

    def _walltimes(self, verdict: Hold) -> tuple[Change, ...]:
        """Up to the promise or the window that is in its way."""
        numbers, at = dict(verdict.numbers), self._snapshot.taken_at
        span = numbers.get("at_most")
        for key in ("at", "from"):
            if span is None and verdict.reason in {Reason.WOULD_DELAY, Reason.MAINTENANCE}:
                instant = numbers.get(key)
                span = instant - at if isinstance(instant, int) else None
        if not isinstance(span, int):
            return ()
        present = duration_of(self._job, self._policy)
        fits = SHORTEST_WALLTIME <= span < min(present, NEVER)
        return (Change(ChangeKind.WALLTIME, span),) if fits else ()

    def _largest(self, kind: ChangeKind, most: int, wanted: set[Effect]) -> Iterator[Suggestion]:
        """The largest number up to `most` that helps: where one helps, a smaller one does too."""
        effects: dict[int, Effect | None] = {}

        def works(number: int) -> bool:
            effects[number] = self._effect_of(Change(kind, number))
            return effects[number] in wanted

        number = largest(most, works)
        effect = effects.get(number)
        if effect is not None:
            yield Suggestion(kind, number, effect)

    def _effect_of(self, change: Change) -> Effect | None:
        return self._judged(with_change(self._snapshot, self._job.id, change), RULED_OUT)

    def _judged(self, snapshot: Snapshot, still: frozenset[Reason]) -> Effect | None:
        """What becomes of the job in this snapshot; None if its reason is `still` the matter."""
        verdict = verdict_on(snapshot, self._policy, self._job.id)
        if isinstance(verdict, Start):
            return Effect.STARTS_NOW
        return None if verdict.reason in still else Effect.MAY_START


def largest(most: int, works: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` that works, 0 if 1 does not; few are tried."""
    if most < 1 or not works(1):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle) else (low, middle - 1)
    return low
