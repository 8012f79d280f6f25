"""What the cluster is told about a job: start its gang behind the gate and open it, or remove it.

Each step may be done twice and is keyed by the attempt, so a worker that dies leaves nothing that
the next one cannot take up. One worker at a time per job: the lock is the fence between opening
gates and having them removed.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Least, Now

from portal.core.locks import LockSpace, advisory_lock
from scheduling.models import Job, JobGroup, Member
from scheduling.querysets import of_attempts
from scheduling.services import lifecycle, observation, settling, walltime
from scheduling.services.gangs import gangs_of, key_of, pod_group_of, rendezvous_of, size_of
from scheduling.services.holding import LONGEST_WHY
from scheduling.services.places import Place, places_of
from scheduling.services.trying_again import after_failed_start
from scheduling.states import DISPLACEABLE, ENDED_PHASES, FINAL, JobState, MemberPhase
from tenants.services.tenancy import namespace_of, prepare_tenancy
from topology.kube.gateway import AttemptMoved, Gateway, NotOffered, NotThere, RefusedByCluster
from topology.kube.values import GangKey, GangSpec, MemberClaim, MemberRelease, MemberSeen
from topology.services import pod_groups

logger = logging.getLogger(__name__)

# Pods appear some hundredths of a second after their gang is opened, those of a large one batch
# after batch. Where no further one comes for so long, the beat takes it up again.
PATIENCE_SECONDS = 2.0
PAUSE_SECONDS = 0.05
_OVERDUE = timedelta(seconds=30)  # after the grace that a member has to end in


def bind(job_id: int, attempt: int, gateway: Gateway, *, at: datetime) -> bool:
    """Carry out one start; False when it is no longer wanted or not all gates are open yet.

    at: cluster clock. Raises ClusterAway.
    """
    with advisory_lock(LockSpace.JOB, job_id) as held:
        job = _wanted(job_id, attempt) if held else None
        if job is None:
            return False
        begin_now([job])
        try:
            return _bind(job, gateway)
        except RefusedByCluster as refusal:
            # What the cluster refuses once it refuses again: somebody has to look at it.
            _roll_back(job, refusal, at=at, is_held=True, held_because=str(refusal)[:LONGEST_WHY])
        except (AttemptMoved, NotThere) as refusal:
            _roll_back(job, refusal, at=at, **after_failed_start(job, at=at))
        return False


def _roll_back(job: Job, refusal: Exception, *, at: datetime, **changes: Any) -> None:
    logger.warning("%s attempt %d is rolled back: %s", job.public_id, job.attempt, refusal)
    reason = f"not placed: {refusal}"
    lifecycle.stop(job, towards=JobState.QUEUED, at=at, reason=reason, **changes)


def _wanted(job_id: int, attempt: int) -> Job | None:
    """The job, if this attempt is still to be started."""
    return starting({job_id: attempt}).select_related("tenant", "cluster").first()


def starting(attempts: Mapping[int, int]) -> QuerySet[Job]:
    """Those of the attempts, by the keys of their jobs, that are still to be started.

    Asked again before the gates open.
    """
    return Job.objects.filter(of_attempts(attempts, job="pk"), state=JobState.STARTING)


def begin_now(jobs: Sequence[Job]) -> None:
    """The time to bind counts from here on: a start that waited for a worker is not late."""
    latest = Now() + timedelta(seconds=settings.BIND_TIMEOUT_SECONDS)
    attempts = {job.pk: job.attempt for job in jobs}
    same = Job.objects.filter(of_attempts(attempts, job="pk"), state__in={j.state for j in jobs})
    same.update(release_by=Least("release_by", latest))


def _bind(job: Job, gateway: Gateway) -> bool:
    """Hold, then open: every group's pods exist behind the gate before the first gate opens."""
    prepare_tenancy(job.tenant, job.cluster, gateway)
    groups = list(job.groups.order_by("index"))
    places = places_of(job)
    sizes = Counter(place.group for place in places)
    gangs = gangs_of(
        job, groups, sizes, by_claim=_is_by_claim(places), back_end=_back_end_of(places)
    )
    owners = _hold(job, gangs, gateway)
    if gangs[0].has_peers:
        gateway.ensure_rendezvous(rendezvous_of(gangs[0], owners))
    for gang in gangs:
        if gang.is_opened_later:
            gateway.open_gang(gang.key)
    releases = _await_all(job, groups, places, gateway)
    if None in releases or not starting({job.pk: job.attempt}).exists():
        return False
    shut = gateway.release_all([release for found in releases for release in found or ()])
    for failure in shut:
        logger.warning("gate of %s stayed shut: %s", failure.release.pod_name, failure.why)
    return not shut


def _hold(job: Job, gangs: Sequence[GangSpec], gateway: Gateway) -> dict[str, str]:
    """Have the gang's Jobs, and the PodGroup that their pods name; the Jobs' uids by their names.

    The pods are made later, so that no pod ever names a group that is not there.
    """
    owners = {gang.key.name: gateway.ensure_gang(gang) for gang in gangs}
    if not gangs[0].in_pod_group:
        return owners
    try:
        gateway.ensure_pod_group(pod_group_of(gangs[0], owners))
    except NotOffered as refusal:
        pod_groups.note_refusal(job.cluster, str(refusal))
        return _hold(job, [replace(gang, in_pod_group=False) for gang in gangs], gateway)
    return owners


def _is_by_claim(places: Sequence[Place]) -> bool:
    """Whether the nodes of its members give their GPUs by claims; all of them must do as one.

    RefusedByCluster: they do not, and pods that are made of one template cannot ask both ways.
    """
    ways = {bool(place.claims): place.node for place in places if place.has_whole_gpus}
    if len(ways) > 1:
        raise RefusedByCluster(
            f"{ways[True]} gives its GPUs by claims (DRA) and {ways[False]} by a device plugin, and"
            " a job cannot ask for both; let all nodes with this kind of GPU do the same"
        )
    return True in ways


def _back_end_of(places: Sequence[Place]) -> str:
    """Who gives its members parts of GPUs; "" where none has such. RefusedByCluster as above."""
    ways = {place.back_end: place.node for place in places if place.back_end}
    if len(ways) > 1:
        said = ", ".join(f"{node} gives parts of its GPUs by {way}" for way, node in ways.items())
        raise RefusedByCluster(
            f"{said}, and a job cannot ask for both; let all nodes with this kind of GPU do the"
            " same"
        )
    return next(iter(ways), "")


def _await_all(
    job: Job, groups: list[JobGroup], places: Sequence[Place], gateway: Gateway
) -> list[list[MemberRelease] | None]:
    """What opens the gates of each group.

    A group's ranks in the gang begin after the most that those before it may have, so that none
    is given twice while they grow.
    """
    firsts = accumulate((group.max_member for group in groups), initial=0)
    own = {group.pk: {p.rank: p for p in places if p.group == group.pk} for group in groups}
    return [
        _await_releases(job, group, own[group.pk], gateway, first_rank=first, size=len(places))
        for group, first in zip(groups, firsts, strict=False)
    ]


def _await_releases(
    job: Job,
    group: JobGroup,
    places: Mapping[int, Place],
    gateway: Gateway,
    *,
    first_rank: int,
    size: int,
) -> list[MemberRelease] | None:
    """What opens the group's gates; None when some of its pods are still to be made.

    places: of its members, by rank.
    """
    live = {rank: place for rank, place in places.items() if not place.has_ended}
    for pods in _looks(job, group, gateway):
        if pods.keys() >= live.keys():
            return [
                opening(pod, live[rank], rank=first_rank + rank, size=size)
                for rank, pod in sorted(pods.items())
                if rank in live and pod.phase == MemberPhase.GATED and not pod.foreign_gates
            ]
    return None


def _looks(job: Job, group: JobGroup, gateway: Gateway) -> Iterator[dict[int, MemberSeen]]:
    """The group's pods by rank, again and again, as long as more of them come.

    Half of the time goes to others: a list of a large gang costs the cluster as much as us.
    """
    most, came_at = -1, time.monotonic()
    while True:
        began = time.monotonic()
        pods = {pod.rank: pod for pod in _own(gateway, key_of(job, group)) if not pod.stopping}
        yield pods
        now = time.monotonic()
        if len(pods) > most:
            most, came_at = len(pods), now
        elif now - came_at > PATIENCE_SECONDS:
            return
        time.sleep(max(PAUSE_SECONDS, now - began))


def opening(pod: MemberSeen, place: Place, *, rank: int, size: int) -> MemberRelease:
    """What opens the gate of `pod`. rank: in the gang, which has `size` members."""
    return MemberRelease(
        namespace=pod.namespace,
        pod_name=pod.pod_name,
        pod_uid=pod.pod_uid,
        node=place.node,
        attempt=pod.attempt,
        devices=place.devices,
        rank=rank,
        world_size=size,
        claim=MemberClaim(job=pod.job, group=pod.group, rank=pod.rank, uuids=place.claims)
        if place.claims
        else None,
        back_end=place.back_end,
        part_of=place.part_of,
    )


def scale(job_id: int, attempt: int, gateway: Gateway, *, clock: Callable[[], datetime]) -> bool:
    """Bring the gangs of a running job to the size that the ledger says; True when they are.

    Raises ClusterAway.
    """
    with advisory_lock(LockSpace.JOB, job_id) as held:
        jobs = Job.objects.select_related("tenant", "cluster")
        running = jobs.filter(pk=job_id, attempt=attempt, state=JobState.RUNNING)
        job = running.first() if held else None
        if job is None:
            return False
        begin_now([job])
        try:
            return _scale(job, gateway, clock=clock)
        except (AttemptMoved, NotThere, RefusedByCluster) as refusal:
            # Members that do not come are taken back when their time is over.
            logger.warning("%s keeps its size: %s", job.public_id, refusal)
            return False


def _scale(job: Job, gateway: Gateway, *, clock: Callable[[], datetime]) -> bool:
    groups = list(job.groups.order_by("index"))
    for group in groups:
        gateway.scale_gang(key_of(job, group), size_of(job, group))
    live = list(_live(job).select_related("group"))
    leaving = [member for member in live if member.is_leaving]
    _note_gone(job, leaving, gateway, at=clock())
    found = _await_all(job, groups, places_of(job), gateway)
    if None in found:
        return False
    releases = [release for own in found for release in own or ()]
    if releases and job.cluster.has_pod_groups:
        # They join one at a time, and of those before them some may have ended.
        gateway.ease_pod_group(namespace_of(job.tenant), job.public_id)
    return not gateway.release_all(releases)


def limit(job_id: int, attempt: int, gateway: Gateway) -> bool:
    """Tell the cluster when a running job ends; False when there is no more to tell.

    An extension that comes meanwhile is told by a task of its own. Raises ClusterAway.
    """
    jobs = Job.objects.select_related("tenant")
    running = jobs.filter(pk=job_id, attempt=attempt, state=JobState.RUNNING)
    job = running.filter(is_end_untold=True).first()
    ends_at = None if job is None else job.limit_end_at
    if job is None or ends_at is None:
        return False
    for group in job.groups.order_by("index"):
        with suppress(NotThere, AttemptMoved):  # it has ended, or is about to be found gone
            wall_at = walltime.wall_at(job, ends_at)
            gateway.limit_gang(key_of(job, group), ends_at=ends_at, wall_at=wall_at)
    running.filter(walltime_seconds=job.walltime_seconds).update(is_end_untold=False)
    return True


def _live(job: Job) -> QuerySet[Member]:
    return job.members.filter(attempt=job.attempt).exclude(phase__in=ENDED_PHASES)


def remove(job_id: int, gateway: Gateway, *, clock: Callable[[], datetime]) -> bool:
    """Remove the gangs of a job that stops, waits, or ended with members left; True when gone.

    Members whose pods the cluster never made, or no longer has, are noted as gone.
    Raises ClusterAway.
    """
    with advisory_lock(LockSpace.JOB, job_id) as held:
        job = _to_remove(job_id) if held else None
        if job is None:
            return False
        for group in job.groups.all():
            if not _is_left_to_be_read(job, group):
                gateway.delete_gang(key_of(job, group))
        live = list(job.members.exclude(phase__in=ENDED_PHASES).select_related("group"))
        is_empty = _note_gone(job, live, gateway, at=clock())
        _note_orphans(job, gateway)
        return is_empty


def _note_gone(job: Job, leaving: list[Member], gateway: Gateway, *, at: datetime) -> bool:
    """Note those that have left, and put out those that stay in spite of all; True if all have."""
    there = _there(job, leaving, gateway)
    for member in leaving:
        pods = there.get(_where(member), [])
        if not pods:
            observation.note_gone(member)
        for pod in pods:
            # Its node is gone, or does not get it ended; whoever waits has waited enough.
            if pod.stop_by is not None and at >= pod.stop_by + _OVERDUE:
                logger.warning("%s is removed: it did not end in time", pod.pod_name)
                gateway.remove_member(pod)
    settling.settle(job.pk, at=at)
    return not there


def _note_orphans(job: Job, gateway: Gateway) -> None:
    """Pods of ours that were left without their Job run on, and nobody may remove them but people.

    They may have told their last long ago, when they were still in the ledger.
    """
    for group in job.groups.all():
        for pod in gateway.members(key_of(job, group)):
            if pod.by_hand:
                observation.observe_if_stray(job.cluster, pod)


def _is_left_to_be_read(job: Job, group: JobGroup) -> bool:
    """Whether the cluster itself ended the gang, whose logs it keeps for some days."""
    return job.state in FINAL and bool(group.outcome) and group.outcome_attempt == job.attempt


def _to_remove(job_id: int) -> Job | None:
    job = Job.objects.select_related("tenant", "cluster").get(pk=job_id)
    return None if job.state in DISPLACEABLE else job


def _there(
    job: Job, members: list[Member], gateway: Gateway
) -> dict[tuple[int, int, int], list[MemberSeen]]:
    """The pods that the cluster still has of the gangs of `members`, by group, attempt and rank."""
    there = defaultdict(list)
    for group, attempt in {(member.group, member.attempt) for member in members}:
        for pod in _own(gateway, key_of(job, group, attempt=attempt)):
            there[group.pk, attempt, pod.rank].append(pod)
    return there


def _own(gateway: Gateway, key: GangKey) -> list[MemberSeen]:
    """The attempt's pods, save those that somebody made by hand in their likeness."""
    return [pod for pod in gateway.members(key) if not pod.by_hand]


def _where(member: Member) -> tuple[int, int, int]:
    return member.group_id, member.attempt, member.rank


def look_after(job_id: int, gateway: Gateway, *, at: datetime) -> None:
    """Find out what became of a job with a member gone, or whose gang the cluster calls over.

    It has ended, or is to be queued again. A cluster calls a gang over once its pods have ended;
    if some go on all the same, a person has called it that.

    The cluster removes the pods of a gang that it has ended, and we may hear of the pods first.
    Raises ClusterAway.
    """
    job = Job.objects.select_related("tenant", "cluster").get(pk=job_id)
    wanted = {key_of(job, group) for group in job.groups.all()}
    found = [seen for seen in gateway.gangs() if seen.key in wanted]
    for seen in found:
        observation.observe(job.cluster, seen, at=at)
        if seen.outcome and any(_goes_on(pod) for pod in _own(gateway, seen.key)):
            settling.fail_if_called_over(job_id, attempt=job.attempt, seen=seen, at=at)
    is_gang_gone = len(found) < len(wanted)
    settling.give_up_if_lost(job_id, attempt=job.attempt, is_gang_gone=is_gang_gone, at=at)


def _goes_on(pod: MemberSeen) -> bool:
    return pod.phase not in ENDED_PHASES and not pod.stopping
