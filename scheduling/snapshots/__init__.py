"""Rows to arrays: the one way from the database to the engine, in a fixed number of queries."""

from datetime import datetime

from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.snapshots import hardware, jobs, promises
from scheduling.snapshots.quotas import quota_table
from scheduling.snapshots.rows import NO_FLAVOR, Rows
from scheduling.snapshots.times import seconds
from topology.models import Cluster

__all__ = ["take"]

DEFAULT = Policy()


def take(cluster: Cluster, *, at: datetime, policy: Policy = DEFAULT) -> Snapshot:
    """`cluster` at this instant of the database. at: cluster clock.

    policy: what it is planned with; it says how past use decays, and how long jobs may run.
    As many queries for a large cluster as for a small one; call it inside `consistent_read`.
    """
    rows = Rows(cluster)
    return Snapshot.of(
        taken_at=seconds(at),
        flavors=(*(flavor.name for flavor in rows.flavors), NO_FLAVOR),
        **hardware.nodes(rows),
        **promises.closing_times(rows, at),
        **hardware.gpus(rows),
        **hardware.domains(rows),
        tenant_ids=tuple(tenant.pk for tenant in rows.tenants),
        tenant_names=tuple(tenant.slug for tenant in rows.tenants),
        tenant_strict=[tenant.is_strict for tenant in rows.tenants],
        **promises.budgets(rows, policy, at),
        **promises.history(rows, policy, at),
        cohort_names=tuple(cohort.name for cohort in rows.cohorts),
        quotas=quota_table(rows),
        pending=tuple(jobs.pending(job, rows) for job in rows.waiting),
        running=tuple(jobs.running(job, rows, at) for job in rows.holding),
        holds=jobs.kept(rows, at),
        blocks=promises.blocks(rows, at),
    )
