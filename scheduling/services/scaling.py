"""Elastic gangs: members that come to a running gang or leave it, written down; see binding.scale.

The members of a group are its ranks from 0 on without a gap, as its Job in the cluster wants them:
new ones follow the highest rank, and the highest leave first.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from portal.core.queueing import send_on_commit
from scheduling.engine.plan import Grow, Shrink
from scheduling.engine.snapshot import Snapshot
from scheduling.models import Job, JobEvent, Member, Placement, PlacementGpu
from scheduling.services.devices import DeviceGone, is_taken
from scheduling.services.starts import release_by, write_ledger
from scheduling.states import ENDED_PHASES, JobState


def grow(decision: Grow, snapshot: Snapshot, *, at: datetime) -> bool:
    """Give a running gang more members; False when it or the devices changed since the snapshot."""
    try:
        with transaction.atomic():
            return _grow(decision, snapshot, at=at)
    except DeviceGone:
        return False
    except IntegrityError as error:
        if not is_taken(error):
            raise
        return False


def _grow(decision: Grow, snapshot: Snapshot, *, at: datetime) -> bool:
    job = _running(decision.job)
    if job is None or not _follow_on(job, decision):
        return False
    size = len(_staying(job))
    write_ledger({job: decision.members}, snapshot, at=at)
    reason = f"size {size + len(decision.members)}, was {size}"
    _note(job, reason, at=at, release_by=release_by())
    return True


def _follow_on(job: Job, decision: Grow) -> bool:
    """Whether the new members have the ranks after those that the gang has.

    It has had no others but those that left it and are gone.
    """
    ranks = defaultdict(set)
    members = job.members.filter(attempt=job.attempt)
    for group, rank, phase, is_leaving in members.values_list(
        "group__index", "rank", "phase", "is_leaving"
    ):
        if is_leaving != (phase in ENDED_PHASES):
            return False
        if not is_leaving:
            ranks[group].add(rank)
    for member in decision.members:
        if member.rank in ranks[member.group]:
            return False
        ranks[member.group].add(member.rank)
    return all(own == set(range(len(own))) for own in ranks.values())


@transaction.atomic
def shrink(decision: Shrink, snapshot: Snapshot, *, at: datetime) -> bool:
    """Have the highest ranks of a running gang leave; False when it changed since the snapshot."""
    job = _running_with_members(decision.job)
    wanted = {(member.group, member.rank) for member in decision.members}
    staying = [] if job is None else _staying(job)
    leaving = [member for member in staying if (member.group.index, member.rank) in wanted]
    if job is None or len(leaving) < len(wanted):
        return False
    _leave(leaving)
    sizes = f"size {len(staying) - len(leaving)}, was {len(staying)}"
    reason = f"{sizes}: room for {_name(decision, job, snapshot)}"
    _note(job, reason, at=at, stopping_for_id=decision.on_behalf_of)
    return True


@transaction.atomic
def take_back_late(job: Job, late: Iterable[Member], *, at: datetime) -> bool:
    """Have members leave again that did not get onto their nodes in time, and those above them."""
    current = _running_with_members(job.pk)
    lowest: dict[int, int] = {}
    for member in late:
        lowest[member.group_id] = min(member.rank, lowest.get(member.group_id, member.rank))
    if current is None or current.attempt != job.attempt:
        return False
    staying = _staying(current)
    above = [own for own in staying if own.rank >= lowest.get(own.group_id, own.rank + 1)]
    _leave(above)
    sizes = f"size {len(staying) - len(above)}, was {len(staying)}"
    _note(current, f"{sizes}: not bound in time", at=at)
    return True


def _running(job_id: int) -> Job | None:
    return Job.objects.select_for_update().filter(pk=job_id, state=JobState.RUNNING).first()


def _running_with_members(job_id: int) -> Job | None:
    """As `_running`, with its members, which are locked first.

    Observation writes a member down and then settles its job: whoever changes both locks them in
    that order, or each would wait for the other.
    """
    members = Member.objects.select_for_update().filter(job=job_id).exclude(phase__in=ENDED_PHASES)
    list(members.order_by("pk").values_list("pk"))
    return _running(job_id)


def _staying(job: Job) -> list[Member]:
    members = job.members.filter(attempt=job.attempt, is_leaving=False)
    return list(members.exclude(phase__in=ENDED_PHASES).select_related("group"))


def _leave(members: list[Member]) -> None:
    """Mark them, in placements of their own, so that those are released when they are gone."""
    Member.objects.filter(pk__in=[member.pk for member in members]).update(is_leaving=True)
    by_placement = defaultdict(list)
    for member in members:
        by_placement[member.placement_id].append(member)
    for placement in Placement.objects.filter(pk__in=by_placement):
        _split_off(placement, by_placement[placement.pk])


def _split_off(placement: Placement, members: list[Member]) -> None:
    left = placement.member_count - len(members)
    if not left:
        return
    Placement.objects.filter(pk=placement.pk).update(member_count=left)
    part = Placement.objects.create(
        job_id=placement.job_id,
        group_id=placement.group_id,
        node_id=placement.node_id,
        attempt=placement.attempt,
        member_count=len(members),
        bound_at=placement.bound_at,
    )
    Member.objects.filter(pk__in=[member.pk for member in members]).update(placement=part)
    PlacementGpu.objects.filter(member__in=members).update(placement=part)


def _name(decision: Shrink, job: Job, snapshot: Snapshot) -> str:
    """The job that needs their places, by its id if it is of the same tenant."""
    claimant = next(own for own in snapshot.pending if own.id == decision.on_behalf_of)
    is_own = snapshot.tenant_ids[claimant.tenant] == job.tenant_id
    return claimant.name if is_own else "another tenant's job"


def _note(job: Job, reason: str, *, at: datetime, **changes: object) -> None:
    """An event of a gang that runs on, and the cluster to be told of it."""
    Job.objects.filter(pk=job.pk).update(version=F("version") + 1, **changes)
    JobEvent.objects.create(job=job, from_state=job.state, to_state=job.state, reason=reason, at=at)
    send_on_commit("scheduling.scale_job", job_id=job.pk, attempt=job.attempt)
