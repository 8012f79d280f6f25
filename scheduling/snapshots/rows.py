from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import F, Q

from scheduling.models import (
    DeviceHold,
    Job,
    JobDependency,
    JobFlavor,
    JobGroup,
    Member,
    Placement,
    PlacementGpu,
)
from scheduling.states import ENDED_PHASES, JobState, MemberPhase
from tenants.models import Cohort, Quota, Tenant
from topology.models import Cluster, Gpu, Node, ResourceFlavor

NO_FLAVOR = "none"  # the last flavor: of nodes that have none, in which nobody has quota


@dataclass(frozen=True, slots=True)
class Held:
    """One member that holds its place: of which job and group, where, with which devices.

    is_running: its container runs. is_leaving: it was told to end while its gang goes on.
    """

    job: int
    placement: int
    group: int
    rank: int
    node: int
    gpus: tuple[int, ...]
    is_running: bool
    is_leaving: bool


class Rows:
    """The rows that a snapshot is made of, and where each of them stands in its arrays."""

    def __init__(self, cluster: Cluster) -> None:
        here = {"cluster": cluster}
        self.cluster = cluster
        self.planned_at = cluster.planned_at  # of the last cycle
        self.flavors = list(ResourceFlavor.objects.filter(**here).order_by("name"))
        nodes = Node.objects.filter(**here).present().in_name_order()
        self.nodes = list(nodes.select_related("rack", "fabric", "nvlink_domain"))
        self.node_at = {node.pk: index for index, node in enumerate(self.nodes)}
        gpus = Gpu.objects.filter(node__in=nodes).order_by("node__name", "node_id", "index")
        self.gpus = list(gpus)
        self.gpu_at = {gpu.pk: index for index, gpu in enumerate(self.gpus)}
        self.tenants = list(Tenant.objects.order_by("pk"))
        self.cohorts = list(Cohort.objects.order_by("pk"))
        self.quotas = list(Quota.objects.filter(flavor__cluster=cluster))
        self.placements = list(
            Placement.objects.active().filter(job__cluster=cluster).order_by("pk")
        )
        self.holding = list(
            Job.objects.filter(pk__in={placement.job_id for placement in self.placements}).order_by(
                "pk"
            )
        )
        self.waiting = list(Job.objects.filter(**here).waiting().in_queue_order())
        held = {job.pk for job in self.holding}
        wanted = Q(job__cluster=cluster, job__state=JobState.QUEUED) | Q(job__in=held)
        self.groups = _by_job(JobGroup.objects.filter(wanted).order_by("job_id", "index"))
        self.accepted = _by_job(
            JobFlavor.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED).order_by(
                "job_id", "rank"
            )
        )
        self.after = _by_job(
            JobDependency.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED)
            .select_related("on")
            .order_by("job_id", "on_id")
        )
        self.kept = list(
            DeviceHold.objects.filter(job__cluster=cluster, job__state=JobState.QUEUED).order_by(
                "job_id", "group_index", "rank", "node_id", "gpu_id"
            )
        )
        self.cut_off: set[int] = set()  # jobs with members on nodes that are gone
        self.held = self._held(cluster)
        ended = Member.objects.filter(job__in=held, phase__in=ENDED_PHASES, is_leaving=False)
        # Jobs of which some member has run its time: they are near their end.
        self.ending = set(ended.filter(attempt=F("job__attempt")).values_list("job_id", flat=True))

    def _held(self, cluster: Cluster) -> dict[int, list[Held]]:
        """Members whose placement is active, by job, in group and rank order."""
        active = {"placement__released_at__isnull": True, "placement__job__cluster": cluster}
        devices = defaultdict(list)
        for member_id, gpu_id in PlacementGpu.objects.filter(**active).values_list(
            "member_id", "gpu_id"
        ):
            if gpu_id in self.gpu_at:
                devices[member_id].append(self.gpu_at[gpu_id])
        held = defaultdict(list)
        members = Member.objects.filter(**active).order_by("job_id", "group__index", "rank")
        names = ("pk", "phase", "is_leaving", "placement__node_id")
        for pk, phase, is_leaving, node, *own in members.values_list(
            *names, "job_id", "placement_id", "group__index", "rank"
        ):
            if node in self.node_at:
                gpus = tuple(sorted(devices[pk]))
                is_running = phase == MemberPhase.RUNNING
                held[own[0]].append(Held(*own, self.node_at[node], gpus, is_running, is_leaving))
            else:
                self.cut_off.add(own[0])
        return held

    def is_leaving(self, placement: Placement) -> bool:
        """Whether its job, or its members, were told to go."""
        return placement.job_id in self._leaving or placement.pk in self._split

    @cached_property
    def _leaving(self) -> set[int]:
        return {job.pk for job in self.holding if is_leaving(job)}

    @cached_property
    def _split(self) -> set[int]:
        held = (member for members in self.held.values() for member in members)
        return {member.placement for member in held if member.is_leaving}

    @cached_property
    def tenant_at(self) -> dict[int, int]:
        return {tenant.pk: index for index, tenant in enumerate(self.tenants)}

    @cached_property
    def flavor_at(self) -> dict[int, int]:
        return {flavor.pk: index for index, flavor in enumerate(self.flavors)}

    def flavor_of(self, node: Node) -> int:
        """Index of the flavor of `node`; the last one where it has none."""
        return self.flavor_at.get(node.flavor_id, len(self.flavors))

    @cached_property
    def cohort_at(self) -> dict[int, int]:
        """Rows of the quota table: cohorts come after the tenants."""
        first = len(self.tenants)
        return {cohort.pk: first + index for index, cohort in enumerate(self.cohorts)}


def _by_job(rows: Iterable[Any]) -> Mapping[int, list[Any]]:
    by_job = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    return by_job


def is_leaving(job: Job) -> bool:
    """Whether it holds only until its members are gone: told to stop, or failed with some left."""
    return job.state not in {JobState.STARTING, JobState.RUNNING}
