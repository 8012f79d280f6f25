"""A small cluster with a tenant in it, and a cluster's reports about their jobs."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from scheduling import cycle
from scheduling.models import Job, PlacementGpu
from scheduling.services.observation import observe
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role, Tenant, User
from tests.factories import (
    ClusterFactory,
    CohortFactory,
    FlavorFactory,
    MembershipFactory,
    NodeFactory,
    QuotaFactory,
    TenantFactory,
    UserFactory,
)
from topology.kube.values import GroupSeen, MemberSeen
from topology.models import Cluster, ResourceFlavor

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds):
    """That many seconds after T0."""
    return T0 + timedelta(seconds=seconds)


@dataclass
class World:
    """One cluster of equal nodes, and a tenant whose quota is all of it."""

    cluster: Cluster
    flavor: ResourceFlavor
    tenant: Tenant
    researcher: User
    version: int = 0

    @classmethod
    def of(cls, *, nodes=2, gpus=8):
        cluster = ClusterFactory()
        flavor = FlavorFactory(cluster=cluster)
        NodeFactory.create_batch(nodes, cluster=cluster, flavor=flavor, gpus=gpus)
        tenant = TenantFactory()
        QuotaFactory(tenant=tenant, flavor=flavor, nominal=nodes * gpus)
        researcher = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
        return cls(cluster, flavor, tenant, researcher)

    def request(self, **what):
        return JobRequest(**{"name": "train", "cluster": self.cluster, **what})

    def submit(self, *, members=1, gpus=8, at=T0, **what):
        """A queued job; `groups` among `what` stands for members and gpus."""
        groups = (GroupRequest(members=members, gpus_per_member=gpus),)
        request = self.request(**{"groups": groups, **what})
        return submit_job(request, tenant=self.tenant, by=self.researcher, at=at)

    def started(self, **what):
        """A job that a cycle has started."""
        job = self.submit(**what)
        self.plan()
        job.refresh_from_db()
        return job

    def running(self, **what):
        """A job of which every member runs since T0 + 10 s."""
        job = self.started(**what)
        for member in job.members.filter(attempt=job.attempt).select_related("group"):
            self.say(job, "running", rank=member.rank, group=member.group.name)
        job.refresh_from_db()
        return job

    def plan(self, at=T0):
        cycle.run(self.cluster.pk, at=at)

    def next_version(self):
        self.version += 1
        return self.version

    def say(self, job, phase, *, at=None, **what):
        """The cluster reports one member of `job`, at T0 + 10 s."""
        self.tell(self.member(job, phase, **what), at=at)

    def end(self, job, outcome, *, at=None, **what):
        """The cluster reports the outcome of one group of `job`."""
        self.tell(self.group(job, outcome, **what), at=at)

    def tell(self, seen, *, at=None):
        observe(self.cluster, seen, at=at or after(10))

    def member(self, job, phase, *, rank=0, group="main", **what):
        """A report: a pod that runs has started at T0 + 10 s, one that ended did at T0 + 20 s."""
        attempt = what.pop("attempt", job.attempt)
        seen = {
            "namespace": "muster-t",
            "job": job.public_id,
            "group": group,
            "attempt": attempt,
            "rank": rank,
            "pod_name": f"{job.public_id}-{group}-{rank}",
            "pod_uid": f"{job.public_id}-{group}-{rank}-{attempt}",
            "version": what.pop("version", None) or self.next_version(),
            "phase": phase,
            "started_at": after(10) if phase in {"running", "succeeded", "failed"} else None,
            "ended_at": after(20) if phase in {"succeeded", "failed"} else None,
            "exit_code": {"succeeded": 0, "failed": 1}.get(phase),
        }
        return MemberSeen(**{**seen, **what})

    def group(self, job, outcome, *, group="main", reason="", **what):
        return GroupSeen(
            namespace="muster-t",
            job=job.public_id,
            group=group,
            attempt=what.pop("attempt", job.attempt),
            version=self.next_version(),
            outcome=outcome,
            reason=reason,
            **what,
        )


def lender_and_borrower():
    """Two tenants and one node of eight GPUs: all are the first one's, who lends them."""
    lender = World.of(nodes=1)
    lender.tenant.cohort = CohortFactory()
    lender.tenant.save()
    tenant = TenantFactory(cohort=lender.tenant.cohort)
    QuotaFactory(tenant=tenant, flavor=lender.flavor, nominal=0)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    return lender, replace(lender, tenant=tenant, researcher=person)


def state_of(job):
    return Job.objects.get(pk=job.pk).state


def story(job):
    """The states that a job went through, as its events tell."""
    return [event.to_state for event in job.events.order_by("pk")]


def held_gpus():
    """Devices in active placements, each as often as it is held."""
    return list(PlacementGpu.objects.active().values_list("gpu_id", flat=True))


def person(tenant, role):
    return MembershipFactory(tenant=tenant, role=role).user


def operator():
    return UserFactory(is_operator=True)
