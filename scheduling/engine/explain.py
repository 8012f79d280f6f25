"""Why one job waits, in full: the ladder of checks, who is ahead, when it will start at the latest,
and the smallest changes that would let it start now.

Every change named is true: `with_change` applies it to the snapshot, and the job then starts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.engine.arrays import NEVER
from scheduling.engine.cycle import plan_cycle, verdict_on
from scheduling.engine.horizon import duration_of
from scheduling.engine.jobs import Access, Level, PendingJob
from scheduling.engine.plan import Hold, Number, Plan, Reason, Reserve, Start
from scheduling.engine.policy import EndEstimate, Policy
from scheduling.engine.snapshot import Snapshot

EVERYBODY = 10**9
"""As many reservations as there are jobs."""
FINAL = frozenset({Reason.DEPENDENCY_FAILED})
SHORTEST_WALLTIME = 60


class ChangeKind(StrEnum):
    """What could be asked for differently."""

    MEMBERS = "members"
    GPUS_PER_MEMBER = "gpus_per_member"
    FLAVOR = "flavor"
    LEVEL = "level"
    WALLTIME = "walltime"
    PREEMPTIBLE = "preemptible"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to ask for differently.

    value: members in all groups' first, GPUs of each, index of a flavor, name of a level (empty
    for none), seconds; 1 for preemptible.
    """

    kind: ChangeKind
    value: int | str


@dataclass(frozen=True, slots=True)
class Check:
    """One rung of the ladder. passed: None if an earlier rung was not passed."""

    reason: Reason
    passed: bool | None
    numbers: tuple[tuple[str, Number], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything there is to say of one waiting job.

    ahead: waiting jobs decided before it in its flavors. earliest, latest: when it starts, judged
    by progress and by limits; None if nothing can be said.
    """

    verdict: Start | Hold
    ladder: tuple[Check, ...]
    ahead: tuple[int, ...]
    earliest: int | None
    latest: int | None
    changes: tuple[Change, ...]


def explain(snapshot: Snapshot, policy: Policy, job_id: int) -> Explanation:
    """Why the job waits and what would change that. Raises KeyError if it is not waiting."""
    job = _job(snapshot, job_id)
    plan = plan_cycle(snapshot, policy)
    verdict = _verdict(plan, job_id)
    waits = isinstance(verdict, Hold) and verdict.reason not in FINAL
    return Explanation(
        verdict=verdict,
        ladder=_ladder(verdict),
        ahead=_ahead(snapshot, plan, job),
        earliest=_start_of(snapshot, policy, job_id, EndEstimate.PROGRESS) if waits else None,
        latest=_start_of(snapshot, policy, job_id, EndEstimate.LIMIT) if waits else None,
        changes=tuple(_changes(snapshot, policy, job)) if waits else (),
    )


def with_change(snapshot: Snapshot, job_id: int, change: Change) -> Snapshot:
    """The snapshot in which the job asks for what `change` says."""
    job = _job(snapshot, job_id)
    changed = _APPLIED[change.kind](job, change.value)
    pending = tuple(changed if own.id == job_id else own for own in snapshot.pending)
    return replace(snapshot, pending=pending)


def starts_with(snapshot: Snapshot, policy: Policy, job_id: int, change: Change) -> bool:
    """Whether the job starts now once it asks for what `change` says."""
    changed = with_change(snapshot, job_id, change)
    return isinstance(verdict_on(changed, policy, job_id), Start)


def _changes(snapshot: Snapshot, policy: Policy, job: PendingJob) -> Iterator[Change]:
    """The smallest change of each kind that helps."""
    for candidates in (
        _fewer_members(job),
        _fewer_gpus(job),
        other_flavors(snapshot, job),
        higher_levels(job),
        _shorter_walltimes(snapshot, policy, job),
        _preemptible(job),
    ):
        for change in candidates:
            if starts_with(snapshot, policy, job.id, change):
                yield change
                break


def _fewer_members(job: PendingJob) -> Iterator[Change]:
    if len(job.groups) == 1:
        for members in range(job.min_members - 1, 0, -1):
            yield Change(ChangeKind.MEMBERS, members)


def _fewer_gpus(job: PendingJob) -> Iterator[Change]:
    request = job.groups[0].request
    if len(job.groups) == 1 and request.kind == Access.WHOLE:
        for gpus in range(request.count - 1, 0, -1):
            yield Change(ChangeKind.GPUS_PER_MEMBER, gpus)


def other_flavors(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    """One more flavor to accept, each that is not accepted yet."""
    for flavor in range(len(snapshot.flavors)):
        if job.flavors and flavor not in job.flavors:
            yield Change(ChangeKind.FLAVOR, flavor)


def higher_levels(job: PendingJob) -> Iterator[Change]:
    """Wider domains to be content with, the closest first, and in the end any nodes."""
    if job.required is not None:
        for level in range(job.required + 1, len(Level)):
            yield Change(ChangeKind.LEVEL, Level(level).name.lower())
        yield Change(ChangeKind.LEVEL, "")


def _shorter_walltimes(snapshot: Snapshot, policy: Policy, job: PendingJob) -> Iterator[Change]:
    """From the longest on: up to each promise, block, and window, as far as they are shorter."""
    at = snapshot.taken_at
    plan = plan_cycle(snapshot, policy)
    ends = {reserve.start_at for reserve in plan.of(Reserve)}
    ends |= {block.from_at for block in snapshot.blocks}
    ends |= {end for end in snapshot.node_closes_at.tolist() if end < NEVER}
    present = duration_of(job, policy)
    for span in sorted({end - at for end in ends}, reverse=True):
        if SHORTEST_WALLTIME <= span < present:
            yield Change(ChangeKind.WALLTIME, span)


def _preemptible(job: PendingJob) -> Iterator[Change]:
    if not job.preemptible:
        yield Change(ChangeKind.PREEMPTIBLE, 1)


def _with_members(job: PendingJob, value: int | str) -> PendingJob:
    group = job.groups[0]
    members = int(value)
    smaller = replace(
        group, min_member=min(group.min_member, members), max_member=max(members, group.max_member)
    )
    return replace(job, groups=(smaller,), min_total=members if job.min_total else 0)


def _with_gpus(job: PendingJob, value: int | str) -> PendingJob:
    group = job.groups[0]
    request = replace(group.request, count=int(value))
    return replace(job, groups=(replace(group, request=request),))


_APPLIED: dict[ChangeKind, Callable[[PendingJob, int | str], PendingJob]] = {
    ChangeKind.MEMBERS: _with_members,
    ChangeKind.GPUS_PER_MEMBER: _with_gpus,
    ChangeKind.FLAVOR: lambda job, value: replace(job, flavors=(*job.flavors, int(value))),
    ChangeKind.LEVEL: lambda job, value: replace(
        job, required=Level[str(value).upper()] if value else None
    ),
    ChangeKind.WALLTIME: lambda job, value: replace(job, walltime_seconds=int(value)),
    ChangeKind.PREEMPTIBLE: lambda job, _: replace(job, preemptible=True),
}


def _ladder(verdict: Start | Hold) -> tuple[Check, ...]:
    """All checks in their order: those before the reason are passed, those after it not reached."""
    reasons = list(Reason)
    if isinstance(verdict, Start):
        return tuple(Check(reason, passed=True) for reason in reasons)
    place = reasons.index(verdict.reason)
    return (
        *(Check(reason, passed=True) for reason in reasons[:place]),
        Check(verdict.reason, passed=False, numbers=verdict.numbers),
        *(Check(reason, passed=None) for reason in reasons[place + 1 :]),
    )


def _ahead(snapshot: Snapshot, plan: Plan, job: PendingJob) -> tuple[int, ...]:
    flavors = {own.id: set(own.flavors) for own in snapshot.pending}
    found: list[int] = []
    for hold in plan.holds:
        if hold.job == job.id:
            return tuple(found)
        theirs = flavors[hold.job]
        if not theirs or not job.flavors or theirs & set(job.flavors):
            found.append(hold.job)
    return ()


def _start_of(snapshot: Snapshot, policy: Policy, job_id: int, estimate: EndEstimate) -> int | None:
    """The start that would be promised if everybody were promised one."""
    generous = replace(policy, reservations=EVERYBODY, end_estimate=estimate)
    plan = plan_cycle(snapshot, generous)
    return next((own.start_at for own in plan.of(Reserve) if own.job == job_id), None)


def _verdict(plan: Plan, job_id: int) -> Start | Hold:
    verdicts: list[Start | Hold] = [*plan.starts, *plan.holds]
    return next(own for own in verdicts if own.job == job_id)


def _job(snapshot: Snapshot, job_id: int) -> PendingJob:
    for job in snapshot.pending:
        if job.id == job_id:
            return job
    raise KeyError(f"job {job_id} is not waiting")
