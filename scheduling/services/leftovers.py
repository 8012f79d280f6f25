"""What a cluster has of a job otherwise than the rows say: to be removed, or brought to its size.

A change that somebody asked for may reach the cluster long after he gave up or died. Whoever looks
at a report of it then has the rows carried out once more.
"""

from portal.core.queueing import send_on_commit
from scheduling.models import Job, JobGroup
from scheduling.services.gangs import size_of
from scheduling.states import HOLDING, JobState
from topology.kube.values import GroupSeen
from topology.models import Cluster


def mind_gang(cluster: Cluster, seen: GroupSeen) -> None:
    """Have the Job of a group that has not ended removed, if nobody wants it, or resized."""
    job = Job.objects.filter(cluster=cluster, public_id=seen.job).first()
    if job is None or seen.gone:
        return
    if _is_left_over(job, seen):
        send_on_commit("scheduling.stop_job", job_id=job.pk)
    elif job.state == JobState.RUNNING and job.attempt == seen.attempt:
        group = job.groups.filter(name=seen.group).first()
        if group is not None and _is_of_another_size(job, group, seen):
            send_on_commit("scheduling.scale_job", job_id=job.pk, attempt=job.attempt)


def _is_left_over(job: Job, seen: GroupSeen) -> bool:
    """The Job of one that succeeded stays; it may not yet say that it is complete."""
    is_kept = job.state == JobState.SUCCEEDED and not seen.is_suspended
    return job.state not in HOLDING and not is_kept


def _is_of_another_size(job: Job, group: JobGroup, seen: GroupSeen) -> bool:
    return seen.members not in {0, size_of(job, group)}
