"""The jobs of a trace, submitted as their people would: in their tenants, at their own times."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from portal.core.errors import Refused
from scheduling.models import Job
from scheduling.querysets import JobQuerySet
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from scheduling.simulation.trace import TraceJob, members_of
from tenants.models import Membership, Role, Tenant, User
from topology.models import Cluster

EVERY_TENANT = ""
"""In a mapping of tenants: where the jobs of all others go."""

IMAGE = "busybox:1.37"
RUN_SECONDS = "simcluster.muster.dev/run-seconds"  # how long a simulated cluster lets it run
CHECKPOINT_SECONDS = "simcluster.muster.dev/checkpoint-seconds"
CPU_MILLI_PER_GPU = 4_000
MEMORY_MIB_PER_GPU = 32 * 1024
SPARE_SECONDS = 7200  # on top of twice the time: nobody wants to lose a run to a slow node


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Where the jobs of one trace go.

    name: with it and the trace's key a job is known again, so nothing is submitted twice.
    origin: where the trace's 0 lies on the cluster's clock.
    tenants: by their names in the trace. people: by tenant key, who submits there.
    is_fixed: its jobs are never stopped for others, and so stay inside what their tenants are
    guaranteed: each runs once, as it did when the trace was written.
    saves_every: seconds between checkpoints of its jobs; None makes none.
    limits: seconds that people write down as walltimes, the shortest first. A job takes the first
    that leaves it twice its time and two hours; without such a one it has no walltime.
    """

    name: str
    cluster: Cluster
    origin: datetime
    tenants: Mapping[str, Tenant]
    people: Mapping[int, Sequence[User]]
    is_fixed: bool = False
    saves_every: int | None = None
    limits: Sequence[int] = ()

    def external_id(self, job: TraceJob) -> str:
        return f"{self.name}/{job.key}"

    def due_at(self, job: TraceJob) -> datetime:
        return self.origin + timedelta(seconds=job.submit_seconds)

    def tenant_of(self, job: TraceJob) -> Tenant:
        return self.tenants.get(job.tenant) or self.tenants[EVERY_TENANT]

    def walltime_of(self, job: TraceJob) -> int | None:
        return walltime_for(job.duration_seconds, self.limits)


def walltime_for(duration: int, limits: Sequence[int]) -> int | None:
    """The first of `limits` that leaves a job twice its time and some more; None without one."""
    enough = 2 * duration + SPARE_SECONDS
    return next((limit for limit in limits if limit >= enough), None)


def feed_job(feed: Feed, job: TraceJob) -> Job:
    """The job of the trace, submitted; the one that is there if it was submitted before.

    Its time of submission is the trace's, to the second, however late this is called. Each job
    comes from one of its tenant's people, always the same. Raises as `submit_job`.
    """
    tenant = feed.tenant_of(job)
    people = feed.people[tenant.pk]
    return submit_job(
        request_for(feed, job),
        tenant=tenant,
        by=people[job.row % len(people)],
        at=feed.due_at(job),
    )


def request_for(feed: Feed, job: TraceJob) -> JobRequest:
    """A job that sleeps for as long as the trace's ran, in members of at most 8 GPUs."""
    members, gpus = members_of(job.gpus)
    saves = {} if feed.saves_every is None else {CHECKPOINT_SECONDS: str(feed.saves_every)}
    return JobRequest(
        name=f"{feed.name}-{job.key}",
        cluster=feed.cluster,
        groups=(
            GroupRequest(
                members=members,
                gpus_per_member=gpus,
                cpu_milli=gpus * CPU_MILLI_PER_GPU,
                memory_mib=gpus * MEMORY_MIB_PER_GPU,
            ),
        ),
        image=IMAGE,
        command=("sleep", str(job.duration_seconds)),
        walltime_seconds=feed.walltime_of(job),
        annotations={RUN_SECONDS: str(job.duration_seconds), **saves},
        is_preemptible=not feed.is_fixed,
        external_id=feed.external_id(job),
    )


def people_of(tenants: Collection[Tenant]) -> dict[int, list[User]]:
    """By tenant key, who may submit there, oldest membership first.

    Raises Refused for a tenant without anybody.
    """
    people: dict[int, list[User]] = {tenant.pk: [] for tenant in tenants}
    memberships = Membership.objects.filter(
        tenant__in=people, role__gte=Role.RESEARCHER, user__is_active=True
    )
    for membership in memberships.select_related("user").order_by("pk"):
        people[membership.tenant_id].append(membership.user)
    for tenant in tenants:
        if not people[tenant.pk]:
            raise Refused(
                _("Nobody may submit jobs in tenant %s: give somebody the role of researcher.")
                % tenant.slug
            )
    return people


def unmapped(jobs: Sequence[TraceJob], tenants: Mapping[str, Tenant]) -> list[str]:
    """Tenants of the trace that `tenants` has no place for, in the order of their first jobs."""
    if EVERY_TENANT in tenants:
        return []
    return list(dict.fromkeys(job.tenant for job in jobs if job.tenant not in tenants))


def known_origin(cluster: Cluster, name: str, jobs: Sequence[TraceJob]) -> datetime | None:
    """Where 0 of the trace lies, as an earlier feed of that name placed it; None without one."""
    submits = {f"{name}/{job.key}": job.submit_seconds for job in jobs}
    fed = _fed(cluster, name).order_by("pk").values_list("external_id", "submitted_at")
    for external_id, submitted_at in fed.iterator():
        if external_id in submits:
            return submitted_at - timedelta(seconds=submits[external_id])
    return None


def not_fed(feed: Feed, jobs: Sequence[TraceJob]) -> Iterator[TraceJob]:
    """Those that were not submitted yet, in their order."""
    known = set(_fed(feed.cluster, feed.name).values_list("external_id", flat=True))
    return (job for job in jobs if feed.external_id(job) not in known)


def last_round(cluster: Cluster, name: str) -> int:
    """The number n of the newest feed named `name-n`; 0 before the first."""
    rounds = Job.objects.filter(cluster=cluster, external_id__startswith=f"{name}-")
    newest = rounds.order_by("-pk").values_list("external_id", flat=True).first()
    number = newest.removeprefix(f"{name}-").partition("/")[0] if newest else ""
    return int(number) if number.isdigit() else 0


def _fed(cluster: Cluster, name: str) -> JobQuerySet:
    return Job.objects.filter(cluster=cluster, external_id__startswith=f"{name}/")
