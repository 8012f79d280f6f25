"""What the cluster is told that a job is: the gang of each of its groups, by job and rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduling.models import Job, JobGroup
from tenants.services.tenancy import namespace_of
from topology.kube import names
from topology.kube.values import GangKey, GangSpec, GroupSize, PodGroupSpec, RendezvousSpec

USUAL_GRACE = 30  # seconds to end in, for a job that does not say how long it needs


def gangs_of(
    job: Job,
    groups: Sequence[JobGroup],
    members: Mapping[int, int],
    *,
    by_claim: bool = False,
    back_end: str = "",
) -> list[GangSpec]:
    """The gang of each of `groups`, which are all that the job has.

    members: by the key of the group, how many it has in this attempt. by_claim: its nodes give
    whole GPUs by claims. back_end: who gives parts of GPUs there.
    """
    sizes = tuple(GroupSize(own.name, own.min_member, own.max_member) for own in groups)
    gangs = [_gang(job, group, members.get(group.pk, 0), sizes) for group in groups]
    # A second wall is of use only where more than one has to be bound before any may; who gives
    # parts of GPUs binds them by a scheduler of its own, which may know of no such groups.
    has_wall = job.cluster.has_pod_groups and gangs[0].least_members > 1 and not back_end
    return [
        replace(
            gang,
            by_claim=by_claim and gang.gpus_per_member > 0,
            back_end=back_end if gang.gpu_milli else "",
            in_pod_group=has_wall,
        )
        for gang in gangs
    ]


def size_of(job: Job, group: JobGroup) -> int:
    """How many members the group has in this attempt, without those that leave it."""
    return group.members.filter(attempt=job.attempt, is_leaving=False).count()


def key_of(job: Job, group: JobGroup, *, attempt: int | None = None) -> GangKey:
    """Of the group's gang, in the job's present attempt or in another."""
    return GangKey(
        namespace=namespace_of(job.tenant),
        job=job.public_id,
        group=group.name,
        attempt=job.attempt if attempt is None else attempt,
    )


def grace_of(job: Job) -> int:
    """Seconds that its members have to end in once they are told to."""
    return USUAL_GRACE if job.grace_seconds is None else job.grace_seconds


def rendezvous_of(gang: GangSpec, owners: Mapping[str, str]) -> RendezvousSpec:
    """The names of a gang's members. owners: the uid of each of its Jobs, by its name."""
    return RendezvousSpec(namespace=gang.namespace, job=gang.job, owners=owners, labels=gang.labels)


def pod_group_of(gang: GangSpec, owners: Mapping[str, str]) -> PodGroupSpec:
    """What binds the whole gang as one. owners: as `rendezvous_of`."""
    return PodGroupSpec(
        namespace=gang.namespace,
        job=gang.job,
        attempt=gang.attempt,
        least=gang.least_members,
        owners=owners,
        labels=gang.labels,
        priority_class=gang.priority_class,
    )


def _gang(job: Job, group: JobGroup, members: int, sizes: tuple[GroupSize, ...]) -> GangSpec:
    return GangSpec(
        namespace=namespace_of(job.tenant),
        job=job.public_id,
        group=group.name,
        attempt=job.attempt,
        members=members,
        gpus_per_member=group.gpus_per_member,
        slice_profile=group.slice_profile,
        slices_per_member=group.slices_per_member,
        shares_per_member=group.shares_per_member,
        gpu_milli=group.gpu_milli,
        gpu_mib=group.gpu_mib,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
        image=job.image,
        command=tuple(job.command),
        environment=job.environment,
        annotations=job.annotations,
        labels={names.TENANT: job.tenant.slug},
        walltime_seconds=job.walltime_seconds,
        grace_seconds=grace_of(job),
        saved_seconds=job.saved_seconds,
        priority_class=_priority_class(job, group),
        groups=sizes,
        min_total=job.min_total or 0,
    )


def _priority_class(job: Job, group: JobGroup) -> str:
    """The last wall counts whole GPUs, which each part would be one of."""
    if job.is_standby:
        return names.STANDBY
    return names.PARTS if group.gpu_milli else names.MEMBERS
