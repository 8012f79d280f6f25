"""Rows to arrays: the one way from the database to the engine, in a fixed number of queries."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from django.db.models import Q

from scheduling.engine.arrays import UNLIMITED, IntArray
from scheduling.engine.jobs import (
    Access,
    Group,
    Level,
    PendingJob,
    PlacedMember,
    Request,
    RunningJob,
)
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Quotas, Snapshot
from scheduling.models import Job, JobFlavor, JobGroup, Member, Placement, PlacementGpu
from scheduling.states import JobState
from tenants.models import Cohort, Quota, Tenant
from topology.models import Cluster, Gpu, Node, ResourceFlavor

WHOLE_GPU_MILLI = 1000
NO_FLAVOR = "none"  # the last flavor: of nodes that have none, in which nobody has quota


def take(cluster: Cluster, *, at: datetime) -> Snapshot:
    """`cluster` at this instant of the database. at: cluster clock.

    Sixteen queries, however large the cluster; call it inside `consistent_read`.
    """
    rows = _Rows(cluster)
    return Snapshot.of(
        taken_at=seconds(at),
        flavors=(*(flavor.name for flavor in rows.flavors), NO_FLAVOR),
        **_nodes(rows),
        **_gpus(rows),
        **_domains(rows),
        tenant_ids=tuple(tenant.pk for tenant in rows.tenants),
        tenant_names=tuple(tenant.slug for tenant in rows.tenants),
        tenant_strict=[tenant.is_strict for tenant in rows.tenants],
        cohort_names=tuple(cohort.name for cohort in rows.cohorts),
        quotas=_quotas(rows),
        pending=tuple(_pending(job, rows) for job in rows.waiting),
        running=tuple(_running(job, rows, at) for job in rows.holding),
    )


def seconds(at: datetime) -> int:
    """`at` in whole seconds since the epoch, as the engine counts time."""
    return int(at.timestamp())


@dataclass(frozen=True, slots=True)
class _Held:
    """One member that holds its place: of which job and group, where, with which devices."""

    job: int
    group: int
    rank: int
    node: int
    gpus: tuple[int, ...]


class _Rows:
    """The rows that a snapshot is made of, and where each of them stands in its arrays."""

    def __init__(self, cluster: Cluster) -> None:
        here = {"cluster": cluster}
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
        self.held = self._held(cluster)

    def _held(self, cluster: Cluster) -> dict[int, list[_Held]]:
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
        for pk, job, group, rank, node in members.values_list(
            "pk", "job_id", "group__index", "rank", "placement__node_id"
        ):
            if node in self.node_at:
                gpus = tuple(sorted(devices[pk]))
                held[job].append(_Held(job, group, rank, self.node_at[node], gpus))
        return held

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


def _nodes(rows: _Rows) -> dict[str, Any]:
    capacity = np.array(
        [[node.cpu_milli for node in rows.nodes], [node.memory_mib for node in rows.nodes]],
        dtype=np.int64,
    ).reshape(2, len(rows.nodes))
    used, releasing = _use_of_nodes(rows)
    return {
        "node_ids": tuple(node.pk for node in rows.nodes),
        "node_names": tuple(node.name for node in rows.nodes),
        "node_flavor": [rows.flavor_of(node) for node in rows.nodes],
        "node_open": [node.is_open for node in rows.nodes],
        "capacity": capacity,
        # A node whose room shrank under its jobs has none left, not less than none.
        "free": np.maximum(capacity - used, 0),
        "releasing": releasing,
    }


def _use_of_nodes(rows: _Rows) -> tuple[IntArray, IntArray]:
    """(2, N) CPU and memory held by placements, and the part of it that is on its way back."""
    asked = {
        group.pk: (group.cpu_milli, group.memory_mib)
        for groups in rows.groups.values()
        for group in groups
    }
    leaving = {job.pk for job in rows.holding if _is_leaving(job)}
    used = np.zeros((2, len(rows.nodes)), dtype=np.int64)
    releasing = np.zeros_like(used)
    for placement in rows.placements:
        node = rows.node_at.get(placement.node_id)
        if node is not None:
            amount = np.multiply(asked[placement.group_id], placement.member_count)
            used[:, node] += amount
            if placement.job_id in leaving:
                releasing[:, node] += amount
    return used, releasing


def _is_leaving(job: Job) -> bool:
    """Whether it holds only until its members are gone: told to stop, or failed with some left."""
    return job.state not in {JobState.STARTING, JobState.RUNNING}


def _gpus(rows: _Rows) -> dict[str, Any]:
    models = sorted({gpu.model for gpu in rows.gpus})
    model_at = {model: index for index, model in enumerate(models)}
    held = {gpu for members in rows.held.values() for member in members for gpu in member.gpus}
    return {
        "gpu_ids": tuple(gpu.pk for gpu in rows.gpus),
        "gpu_models": tuple(models),
        "gpu_node": [rows.node_at[gpu.node_id] for gpu in rows.gpus],
        "gpu_index": [gpu.index for gpu in rows.gpus],
        "gpu_model": [model_at[gpu.model] for gpu in rows.gpus],
        "gpu_memory_mib": [gpu.memory_mib or 0 for gpu in rows.gpus],
        "gpu_free_milli": [0 if at in held else WHOLE_GPU_MILLI for at in range(len(rows.gpus))],
        "gpu_island": [gpu.island for gpu in rows.gpus],
        "gpu_numa": [gpu.numa for gpu in rows.gpus],
        "gpu_open": [gpu.is_healthy for gpu in rows.gpus],
    }


def _domains(rows: _Rows) -> dict[str, Any]:
    """Which domain each node is in at each level. Where nobody says, a level has one domain,
    save NVLink across nodes, which nobody has unless it is said.
    """
    words = {
        Level.NODE: [node.name for node in rows.nodes],
        Level.NVL: [
            node.nvlink_domain.name if node.nvlink_domain else f"node {node.name}"
            for node in rows.nodes
        ],
        Level.RACK: [node.rack.name if node.rack else "" for node in rows.nodes],
        Level.BLOCK: ["" for _ in rows.nodes],
        Level.FABRIC: [node.fabric.name if node.fabric else "" for node in rows.nodes],
    }
    names = tuple(tuple(dict.fromkeys(words[level])) for level in Level)
    index = [{name: at for at, name in enumerate(names[level])} for level in Level]
    return {
        "domain_names": names,
        "domain_oversub_milli": tuple(tuple(0 for _ in level) for level in names),
        "node_domain": [[index[level][word] for word in words[level]] for level in Level],
    }


def _quotas(rows: _Rows) -> Quotas:
    """Every tenant is limited to what its quotas say; without any it has nothing of its own."""
    shape = (len(rows.tenants) + len(rows.cohorts), len(rows.flavors) + 1)
    nominal = np.zeros(shape, dtype=np.int64)
    borrowing, lending = np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
    for quota in rows.quotas:
        row = rows.tenant_at.get(quota.tenant_id, rows.cohort_at.get(quota.cohort_id))
        at = (row, rows.flavor_at[quota.flavor_id])
        nominal[at] = quota.nominal * PARTS_PER_GPU
        if quota.borrowing_limit is not None:
            borrowing[at] = quota.borrowing_limit * PARTS_PER_GPU
        if quota.lending_limit is not None:
            lending[at] = quota.lending_limit * PARTS_PER_GPU
    up = [tenant.cohort_id for tenant in rows.tenants] + [c.parent_id for c in rows.cohorts]
    return Quotas.of(
        tenants=len(rows.tenants),
        cohorts=len(rows.cohorts),
        flavors=shape[1],
        parent=[rows.cohort_at.get(cohort, UNKNOWN) for cohort in up],
        weight=[row.weight for row in (*rows.tenants, *rows.cohorts)],
        limited=[True] * shape[0],
        nominal=nominal,
        borrowing_limit=borrowing,
        lending_limit=lending,
        usage=_usage(rows, shape[1]),
    )


def _usage(rows: _Rows, flavors: int) -> IntArray:
    """(T, F) parts that each tenant's placements hold; those that are stopping count too."""
    usage = np.zeros((len(rows.tenants), flavors), dtype=np.int64)
    for job in rows.holding:
        for member in rows.held.get(job.pk, ()):
            flavor = rows.flavor_at.get(rows.nodes[member.node].flavor_id)
            if flavor is not None:
                usage[rows.tenant_at[job.tenant_id], flavor] += len(member.gpus) * PARTS_PER_GPU
    return usage


def _spec(job: Job, rows: _Rows) -> dict[str, Any]:
    """What a waiting and a running job have in common."""
    accepted = (rows.flavor_at.get(row.flavor_id) for row in rows.accepted.get(job.pk, ()))
    return {
        "id": job.pk,
        "name": job.public_id,
        "tenant": rows.tenant_at[job.tenant_id],
        "groups": tuple(_engine_group(group) for group in rows.groups[job.pk]),
        "priority": job.priority,
        "submitted_at": seconds(job.submitted_at),
        "walltime_seconds": job.walltime_seconds,
        "flavors": tuple(flavor for flavor in accepted if flavor is not None),
        "min_total": job.min_total or 0,
        "preemptible": job.is_preemptible,
    }


def _engine_group(group: JobGroup) -> Group:
    gpus = group.gpus_per_member
    return Group(
        name=group.name,
        min_member=group.min_member,
        max_member=group.max_member,
        request=Request(
            kind=Access.WHOLE if gpus else Access.NONE,
            count=gpus,
            cpu_milli=group.cpu_milli,
            memory_mib=group.memory_mib,
        ),
    )


def _pending(job: Job, rows: _Rows) -> PendingJob:
    return PendingJob(**_spec(job, rows), held=job.is_held)


def _running(job: Job, rows: _Rows, at: datetime) -> RunningJob:
    started = seconds(job.started_at or at)
    return RunningJob(
        **_spec(job, rows),
        members=tuple(
            PlacedMember(member.group, member.rank, member.node, member.gpus)
            for member in rows.held.get(job.pk, ())
        ),
        started_at=started,
        limit_end_at=started + job.walltime_seconds if job.walltime_seconds else None,
        stopping=_is_leaving(job),
    )
