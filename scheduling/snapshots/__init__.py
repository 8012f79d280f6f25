"""Rows to arrays: the one way from the database to the engine, in a fixed number of queries."""

from datetime import datetime

from scheduling.engine.snapshot import Snapshot
from scheduling.snapshots import hardware, jobs
from scheduling.snapshots.quotas import quota_table
from scheduling.snapshots.rows import NO_FLAVOR, Rows
from scheduling.snapshots.times import seconds
from topology.models import Cluster

__all__ = ["take"]


def take(cluster: Cluster, *, at: datetime) -> Snapshot:
    """`cluster` at this instant of the database. at: cluster clock.

    As many queries for a large cluster as for a small one; call it inside `consistent_read`.
    """
    rows = Rows(cluster)
    return Snapshot.of(
        taken_at=seconds(at),
        flavors=(*(flavor.name for flavor in rows.flavors), NO_FLAVOR),
        **hardware.nodes(rows),
        **hardware.gpus(rows),
        **hardware.domains(rows),
        tenant_ids=tuple(tenant.pk for tenant in rows.tenants),
        tenant_names=tuple(tenant.slug for tenant in rows.tenants),
        tenant_strict=[tenant.is_strict for tenant in rows.tenants],
        cohort_names=tuple(cohort.name for cohort in rows.cohorts),
        quotas=quota_table(rows),
        pending=tuple(jobs.pending(job, rows) for job in rows.waiting),
        running=tuple(jobs.running(job, rows, at) for job in rows.holding),
        holds=jobs.kept(rows, at),
    )
