"""A large database, made in bulk: what a busy cluster has after some weeks."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from scheduling.models import Job, JobEvent, JobGroup, Member, Placement, PlacementGpu
from scheduling.states import FINAL, JobState, MemberPhase
from tenants.models import Cohort, Membership, Quota, Role, Tenant, User
from topology.models import Cluster, Fabric, Gpu, Node, Rack, ResourceFlavor

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GPUS_PER_NODE = 8
NODES_PER_RACK = 16
BATCH = 2_000
ENDS = sorted(FINAL)


@dataclass(frozen=True)
class Size:
    """running: jobs of `gpus` GPUs each, as many as fit; the other jobs have ended."""

    nodes: int
    jobs: int
    running: int = 0
    queued: int = 0
    gpus: int = 1
    tenants: int = 4


@dataclass(frozen=True)
class Filled:
    cluster: Cluster
    tenants: list[Tenant]
    people: dict[str, User]  # by role, all of the first tenant
    jobs: list[Job]

    @property
    def job(self):
        """A running job of the first tenant, or its first of all."""
        own = [job for job in self.jobs if job.tenant_id == self.tenants[0].pk]
        return next((job for job in own if job.state == JobState.RUNNING), own[0])


def fill(size):
    """A cluster, its tenants and jobs in the database."""
    cluster = Cluster.objects.create(slug="main", name="Main", planned_at=NOW, seen_at=NOW)
    nodes = _nodes(cluster, size.nodes)
    flavors = list(cluster.flavors.order_by("pk"))
    tenants, people = _tenants(size, flavors)
    jobs = _jobs(cluster, tenants, people["researcher"], size)
    _place([job for job in jobs if job.state != JobState.QUEUED], nodes, size)
    return Filled(cluster, tenants, people, jobs)


def _nodes(cluster, count):
    flavors = [
        ResourceFlavor.objects.create(cluster=cluster, name=name, gpu_model=name)
        for name in ("h100-sxm", "a100-80gb", "l40s")
    ]
    fabric = Fabric.objects.create(cluster=cluster, name="ib-1")
    racks = Rack.objects.bulk_create(
        Rack(cluster=cluster, name=f"rack-{n:03}", fabric=fabric)
        for n in range(count // NODES_PER_RACK + 1)
    )
    nodes = Node.objects.bulk_create(
        Node(
            cluster=cluster,
            flavor=flavors[n * len(flavors) // count],
            rack=racks[n // NODES_PER_RACK],
            fabric=fabric,
            name=f"node-{n:04}",
            cpu_milli=96_000,
            memory_mib=1_048_576,
            gpu_count=GPUS_PER_NODE,
            seen_at=NOW,
        )
        for n in range(count)
    )
    Gpu.objects.bulk_create(
        (
            Gpu(
                node=node,
                index=index,
                uuid=f"GPU-{node.pk}-{index}",
                model=node.flavor.gpu_model,
                memory_mib=81_920,
                island=index // 4,
            )
            for node in nodes
            for index in range(GPUS_PER_NODE)
        ),
        batch_size=BATCH,
    )
    return nodes


def _tenants(size, flavors):
    cohort = Cohort.objects.create(name="all")
    tenants = [
        Tenant.objects.create(slug=f"tenant-{n}", name=f"Tenant {n}", cohort=cohort)
        for n in range(size.tenants)
    ]
    Quota.objects.bulk_create(
        Quota(tenant=tenant, flavor=flavor, nominal=size.nodes * GPUS_PER_NODE)
        for tenant in tenants
        for flavor in flavors
    )
    people = {
        name: User.objects.create(username=name, is_operator=name == "operator")
        for name in ("researcher", "lead", "operator")
    }
    for name, role in (("researcher", Role.RESEARCHER), ("lead", Role.LEAD)):
        Membership.objects.create(user=people[name], tenant=tenants[0], role=role)
    return tenants, people


def _jobs(cluster, tenants, owner, size):
    def state(n):
        if n < size.running:
            return JobState.RUNNING
        return JobState.QUEUED if n < size.running + size.queued else ENDS[n % len(ENDS)]

    jobs = Job.objects.bulk_create(
        (_job(n, cluster, tenants[n % len(tenants)], owner, state(n)) for n in range(size.jobs)),
        batch_size=BATCH,
    )
    JobGroup.objects.bulk_create(
        (JobGroup(job=job, gpus_per_member=size.gpus, cpu_milli=1_000) for job in jobs),
        batch_size=BATCH,
    )
    JobEvent.objects.bulk_create(
        (
            JobEvent(job=job, to_state=to, actor=owner, at=NOW)
            for job in jobs
            for to in dict.fromkeys((JobState.QUEUED, JobState.STARTING, job.state))
        ),
        batch_size=BATCH,
    )
    return jobs


def _job(n, cluster, tenant, owner, state):
    submitted = NOW - timedelta(seconds=n * 60)
    has_run = state != JobState.QUEUED
    return Job(
        public_id=f"j-{n:06}",
        tenant=tenant,
        cluster=cluster,
        owner=owner,
        name=f"train-{n}",
        state=state,
        attempt=int(has_run),
        submitted_at=submitted,
        started_at=submitted + timedelta(seconds=30) if has_run else None,
        ended_at=submitted + timedelta(seconds=3_600) if state in FINAL else None,
        reason="" if has_run else "no_room",
        reason_numbers={} if has_run else {"missing": 1},
        reason_at=None if has_run else NOW,
    )


def _place(jobs, nodes, size):
    """A member on its devices for each job that has run; jobs that ended have given them back."""
    gpus = list(Gpu.objects.order_by("node_id", "index"))
    by_node = GPUS_PER_NODE // size.gpus

    def seat(n):
        return n // by_node % len(nodes), n % by_node * size.gpus

    groups = {group.job_id: group for group in JobGroup.objects.all()}
    placements = Placement.objects.bulk_create(
        (
            Placement(
                job=job,
                group=groups[job.pk],
                node=nodes[seat(n)[0]],
                attempt=1,
                member_count=1,
                bound_at=job.submitted_at,
                released_at=job.ended_at,
            )
            for n, job in enumerate(jobs)
        ),
        batch_size=BATCH,
    )
    members = Member.objects.bulk_create(
        (
            Member(
                job=placement.job,
                group=placement.group,
                placement=placement,
                attempt=1,
                rank=0,
                phase=MemberPhase.GONE if placement.released_at else MemberPhase.RUNNING,
                pod_name=f"{placement.job.public_id}-main-0",
                started_at=placement.job.started_at,
                ended_at=placement.job.ended_at,
            )
            for placement in placements
        ),
        batch_size=BATCH,
    )
    PlacementGpu.objects.bulk_create(
        (
            PlacementGpu(
                placement=member.placement,
                member=member,
                gpu=gpus[seat(n)[0] * GPUS_PER_NODE + seat(n)[1] + device],
                released_at=member.placement.released_at,
            )
            for n, member in enumerate(members)
            for device in range(size.gpus)
        ),
        batch_size=BATCH,
    )


def move_on(filled):
    """A minute later: a running job has ended, and another has come and runs on its devices."""
    gone = Job.objects.filter(state=JobState.RUNNING).earliest("pk")
    group, placement, member = gone.groups.get(), gone.placements.get(), gone.members.get()
    devices = list(member.devices.all())
    later = NOW + timedelta(seconds=60)
    Job.objects.filter(pk=gone.pk).update(state=JobState.SUCCEEDED, ended_at=later)
    gone.members.update(phase=MemberPhase.GONE, ended_at=later)
    gone.placements.update(released_at=later)
    member.devices.update(released_at=later)
    job = _copied(gone, public_id=f"{filled.cluster.slug}-{gone.pk}")
    group = _copied(group, job=job)
    placement = _copied(placement, job=job, group=group)
    member = _copied(member, job=job, group=group, placement=placement)
    for device in devices:
        _copied(device, placement=placement, member=member)


def _copied(row, **parts):
    """Another row that differs from `row` in `parts`."""
    row.pk = None
    for name, value in parts.items():
        setattr(row, name, value)
    row.save(force_insert=True)
    return row
