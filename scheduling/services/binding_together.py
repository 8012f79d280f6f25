"""Starts of jobs of one member, carried out side by side.

What is asked for one is asked for all of them at once: their locks, their rows, their pods. What is
not as usual with one of them is left to `binding.bind`, which does all that it takes for it alone.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from portal.core.locks import LockSpace, advisory_locks
from scheduling.models import Job, JobGroup
from scheduling.services.binding import (
    PATIENCE_SECONDS,
    PAUSE_SECONDS,
    begin_now,
    bind,
    opening,
    starting,
)
from scheduling.services.gangs import gangs_of
from scheduling.services.places import Place, places_of_all
from scheduling.states import MemberPhase
from tenants.services.tenancy import prepare_tenancy
from topology.kube.gateway import Gateway, RefusedByCluster
from topology.kube.values import GangKey, GangSpec, MemberSeen

logger = logging.getLogger(__name__)


class _Single(NamedTuple):
    job: Job
    place: Place
    gang: GangSpec


def bind_together(attempts: Mapping[int, int], gateway: Gateway, *, at: datetime) -> bool:
    """Carry out one start of each of these jobs; False when a gate of one is not open yet.

    attempts: by the keys of the jobs. Those that are no longer wanted are left out. at: cluster
    clock. Raises ClusterAway.
    """
    with advisory_locks(LockSpace.JOB, attempts) as held:
        wanted = starting({job: attempts[job] for job in held})
        jobs = list(wanted.select_related("tenant", "cluster").order_by("pk"))
        begin_now(jobs)
        singles = _singles(_with_tenancy(jobs, gateway))
        made = gateway.ensure_all([single.gang for single in singles])
        usual = {single.gang.key: single for single in singles if single.gang.key in made}
        is_open = _open(usual, gateway)
    by_themselves = {job.pk for job in jobs} - {single.job.pk for single in usual.values()}
    alone = [bind(job, attempts[job], gateway, at=at) for job in sorted(by_themselves)]
    return is_open and all(alone)


def _with_tenancy(jobs: Sequence[Job], gateway: Gateway) -> list[Job]:
    """Those whose tenant has what it needs in the cluster."""
    by_tenant = defaultdict(list)
    for job in jobs:
        by_tenant[job.tenant].append(job)
    return [
        job for tenant, own in by_tenant.items() if _has_tenancy(own[0], gateway) for job in own
    ]


def _has_tenancy(job: Job, gateway: Gateway) -> bool:
    try:
        prepare_tenancy(job.tenant, job.cluster, gateway)
    except RefusedByCluster as refusal:
        logger.warning("%s is not bound with others: %s", job.public_id, refusal)
        return False
    return True


def _singles(jobs: Sequence[Job]) -> list[_Single]:
    """Those of one member that waits for nothing but its gate."""
    groups = defaultdict(list)
    for group in JobGroup.objects.filter(job__in=jobs).order_by("job_id", "index"):
        groups[group.job_id].append(group)
    places = places_of_all(jobs)
    found = []
    for job in jobs:
        own = places[job.pk]
        if len(own) == 1 and not own[0].has_ended and not own[0].claims:
            sizes, back_end = {own[0].group: 1}, own[0].back_end
            gang, *more = gangs_of(job, groups[job.pk], sizes, back_end=back_end)
            if not more and not gang.is_opened_later:
                found.append(_Single(job, own[0], gang))
    return found


def _open(usual: Mapping[GangKey, _Single], gateway: Gateway) -> bool:
    """Open each gate once its pod is there; True when all are open."""
    is_open = True
    left = dict(usual)
    for pods in _looks(left, gateway):
        came = {pod.key: pod for pod in pods}
        is_open &= _release(came, usual, gateway)
        for key in came:
            del left[key]
    return is_open and not left


def _release(
    came: Mapping[GangKey, MemberSeen], usual: Mapping[GangKey, _Single], gateway: Gateway
) -> bool:
    """Open the gates of those that are still wanted."""
    attempts = {usual[key].job.pk: key.attempt for key in came}
    wanted = set(starting(attempts).values_list("pk", flat=True))
    shut = gateway.release_all(
        [
            opening(pod, usual[key].place, rank=pod.rank, size=1)
            for key, pod in came.items()
            if usual[key].job.pk in wanted and pod.phase == MemberPhase.GATED
            if not pod.foreign_gates
        ]
    )
    for failure in shut:
        logger.warning("gate of %s stayed shut: %s", failure.release.pod_name, failure.why)
    return not shut and len(wanted) == len(came)


def _is_its(pod: MemberSeen, single: _Single) -> bool:
    return pod.rank == single.place.rank and not pod.by_hand and not pod.stopping


def _looks(left: Mapping[GangKey, _Single], gateway: Gateway) -> Iterator[list[MemberSeen]]:
    """The pods of those that are left, as they come and as long as more of them do."""
    came_at = time.monotonic()
    while left and time.monotonic() - came_at <= PATIENCE_SECONDS:
        began = time.monotonic()
        pods = [pod for pod in gateway.members_of(list(left)) if _is_its(pod, left[pod.key])]
        if pods:
            yield pods
            came_at = time.monotonic()
        if left:
            time.sleep(max(PAUSE_SECONDS, time.monotonic() - began))
