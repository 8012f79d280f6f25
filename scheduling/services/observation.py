"""What a cluster reported, written down: each report may come twice, late, or never.

A report first changes the rows it is about, then the job is settled: brought to where its rows say
it is. Settling asks the rows alone, so whoever does it last gets it right.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduling.models import JobGroup, Member
from scheduling.services import relisting
from scheduling.services.leftovers import mind_gang
from scheduling.services.losses import is_misplaced
from scheduling.services.one_by_one import one_by_one
from scheduling.services.saved_work import note_checkpoint
from scheduling.services.settling import settle
from scheduling.states import ENDED_PHASES, PHASE_ORDER, MemberPhase
from topology.kube.values import ClaimedSeen, GroupSeen, ListBegun, Listed, MemberSeen, StraySeen
from topology.models import Cluster
from topology.services.claimables import claimable_gpus
from topology.services.foreign import observe_listed_labelled, observe_stray

Report = MemberSeen | StraySeen | ClaimedSeen | GroupSeen | ListBegun | Listed


def observe(cluster: Cluster, seen: Report, *, at: datetime) -> None:
    """Take note of one report. at: cluster clock, when it arrived."""
    match seen:
        case MemberSeen():
            if not relisting.is_known(cluster, seen):
                _observe_one(_observe_member, cluster, seen, at=at)
                observe_if_stray(cluster, seen)
        case StraySeen():
            observe_stray(cluster, seen)
        case ClaimedSeen():
            _observe_claimed(cluster, seen)
        case GroupSeen():
            _observe_one(_observe_group, cluster, seen, at=at)
        case ListBegun(kind="members"):
            _forget_later_versions(cluster, seen)
            relisting.begin_list(cluster)
        case Listed(kind="members"):
            relisting.end_list(cluster)
            _observe_absent(cluster, seen, at=at)
            observe_listed_labelled(cluster, seen)


def observe_if_stray(cluster: Cluster, seen: MemberSeen) -> None:
    """A pod with our labels that is in no ledger takes its room from somebody: from all of us."""
    if not seen.node:
        return
    use = None if seen.use is None or _is_in_ledger(cluster, seen) else seen.use
    stray = StraySeen(node=seen.node, uid=seen.pod_uid, version=seen.version, use=use)
    observe_stray(cluster, stray)


def _is_in_ledger(cluster: Cluster, seen: MemberSeen) -> bool:
    own = Member.objects.filter(job__cluster=cluster, job__public_id=seen.job)
    return own.filter(pod_uid=seen.pod_uid).exclude(phase__in=ENDED_PHASES).exists()


@transaction.atomic
def _observe_one(
    note: Callable[[Cluster, Any], int | None], cluster: Cluster, seen: Any, *, at: datetime
) -> None:
    """The rows and what follows for their job, together: a crash leaves neither or both."""
    job_id = note(cluster, seen)
    if job_id is not None:
        settle(job_id, at=at)


def _observe_member(cluster: Cluster, seen: MemberSeen) -> int | None:
    """The job to settle, if the report told something new about one of its members."""
    member = _member_of(cluster, seen)
    if member is None or member.phase in ENDED_PHASES:
        return None
    if member.pod_uid != seen.pod_uid and seen.by_hand:
        return None
    if member.pod_uid not in {"", seen.pod_uid}:
        return _replaced(member, seen)
    if seen.version <= member.seen_version:
        return None
    if seen.phase == MemberPhase.GONE and not member.pod_uid:
        return None  # of a pod that never was this member
    known = member.checkpoint_at
    _write_member(member, seen)
    if member.checkpoint_at != known:
        note_checkpoint(member)
    return member.job_id if _may_move_its_job(member) else None


def _member_of(cluster: Cluster, seen: MemberSeen) -> Member | None:
    """The member that a pod is: of the same uid, else the one of its rank that stays."""
    of_rank = _rank(cluster, seen).select_for_update(of=["self"])
    members = list(of_rank.order_by("is_leaving", "-pk"))
    known = [member for member in members if member.pod_uid == seen.pod_uid]
    return next(iter(known or members), None)


def _observe_claimed(cluster: Cluster, seen: ClaimedSeen) -> None:
    """Note which GPUs a member's claim was given. Nothing follows from it for its job."""
    member = _rank(cluster, seen).order_by("is_leaving", "-pk").first()
    if member is None:
        return
    node = member.placement.node
    uuids = {gpu["device"]: gpu["uuid"] for gpu in claimable_gpus(node)}
    indexes = dict(node.gpus.values_list("uuid", "index"))
    own = [uuids.get(device) for pool, device in seen.devices if pool == node.name]
    labels = [str(index) for index in sorted(indexes[uuid] for uuid in own if uuid in indexes)]
    Member.objects.filter(pk=member.pk).exclude(devices_seen=labels).update(devices_seen=labels)


def _rank(cluster: Cluster, seen: MemberSeen | ClaimedSeen) -> QuerySet[Member]:
    """Those that are, or were, of that rank in that attempt."""
    return Member.objects.filter(
        job__cluster=cluster,
        job__public_id=seen.job,
        group__name=seen.group,
        attempt=seen.attempt,
        rank=seen.rank,
    ).select_related("placement__node")


def _may_move_its_job(member: Member) -> bool:
    """Whether the job may have to move: not for a pod on its way, nor for a start among others.

    One that is on its way elsewhere is to be stopped. A gang runs once its last member does, so
    only that one's report looks at all the others.
    """
    if is_misplaced(member):
        return True
    if member.phase == MemberPhase.RUNNING:
        gang = Member.objects.filter(job=member.job_id, attempt=member.attempt)
        return not gang.filter(started_at=None).exclude(phase__in=ENDED_PHASES).exists()
    return member.phase in ENDED_PHASES


def _replaced(member: Member, seen: MemberSeen) -> int | None:
    """Another pod of the same rank: ours is gone, if that one is newer and there."""
    if seen.phase == MemberPhase.GONE or seen.version <= member.seen_version:
        return None
    note_gone(member)
    return member.job_id


def _write_member(member: Member, seen: MemberSeen) -> None:
    if PHASE_ORDER[MemberPhase(seen.phase)] >= PHASE_ORDER[MemberPhase(member.phase)]:
        member.phase = seen.phase
    member.pod_name, member.pod_uid = seen.pod_name, seen.pod_uid
    member.node_seen = seen.node or member.node_seen
    member.devices_seen = _labels(member, seen) or list(seen.devices) or member.devices_seen
    member.bound_at = seen.bound_at or member.bound_at
    member.started_at = seen.started_at or member.started_at
    member.ended_at = seen.ended_at or member.ended_at
    member.checkpoint_at = seen.checkpoint_at or member.checkpoint_at
    member.foreign_gates = list(seen.foreign_gates)
    member.exit_code = seen.exit_code if seen.exit_code is not None else member.exit_code
    member.message = seen.message[:300]
    member.seen_version = seen.version
    member.save()


def _labels(member: Member, seen: MemberSeen) -> list[str]:
    """The GPUs that it was given parts of, where its back end says so by their UUIDs."""
    if not seen.part_of:
        return []
    indexes = member.placement.node.gpus.filter(uuid__in=seen.part_of).order_by("index")
    return [str(index) for index in indexes.values_list("index", flat=True)]


def note_gone(member: Member) -> None:
    """The pod of `member` is no longer there, or never came to be."""
    Member.objects.filter(pk=member.pk).exclude(phase__in=ENDED_PHASES).update(
        phase=MemberPhase.GONE
    )


def _observe_group(cluster: Cluster, seen: GroupSeen) -> int | None:
    """The job to settle, if the report told that one of its groups has ended."""
    if not seen.outcome:
        mind_gang(cluster, seen)
        return None
    group = JobGroup.objects.filter(
        Q(outcome="") | ~Q(outcome_attempt=seen.attempt),
        job__cluster=cluster,
        job__public_id=seen.job,
        job__attempt=seen.attempt,
        name=seen.group,
    ).first()
    if group is None:
        return None
    JobGroup.objects.filter(pk=group.pk).update(
        outcome=seen.outcome, outcome_reason=seen.reason[:80], outcome_attempt=seen.attempt
    )
    return group.job_id


def _forget_later_versions(cluster: Cluster, seen: ListBegun) -> None:
    """A cluster that counts from lower down than before is another one, or was restored.

    Its reports would be ignored for ever, as older than what is known.
    """
    live = Member.objects.filter(job__cluster=cluster).exclude(phase__in=ENDED_PHASES)
    live.filter(seen_version__gt=seen.version).update(seen_version=0)


def _observe_absent(cluster: Cluster, seen: Listed, *, at: datetime) -> None:
    """Members whose pod was there once and is not in a full list are gone.

    Job by job, each in a transaction of its own: locks are taken in one order only, and a job
    that cannot be settled keeps no other waiting.
    """
    missing = (
        Member.objects.filter(job__cluster=cluster, seen_version__lte=seen.version)
        .exclude(phase__in=ENDED_PHASES)
        .exclude(pod_uid="")
        .exclude(pod_uid__in=seen.keys)
        .order_by("pk")
    )
    by_job: dict[int, list[Member]] = {}
    for member in missing:
        by_job.setdefault(member.job_id, []).append(member)

    def note_absent(job_id: int) -> None:
        for member in by_job[job_id]:
            note_gone(member)
        settle(job_id, at=at)

    one_by_one(by_job, note_absent)
