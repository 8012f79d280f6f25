"""Rows to arrays: the one way from the database to the engine, in a fixed number of queries."""

from datetime import datetime

from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from scheduling.snapshots import holding, promises
from scheduling.snapshots.known import Known, own_known
from scheduling.snapshots.quotas import quota_table
from scheduling.snapshots.rows import NO_FLAVOR, Rows
from scheduling.snapshots.times import seconds
from scheduling.snapshots.waiting import kept_devices
from topology.models import Cluster

__all__ = ["take", "take_knowing"]

DEFAULT = Policy()


def take(cluster: Cluster, *, at: datetime, policy: Policy = DEFAULT) -> Snapshot:
    """`cluster` at this instant of the database. at: cluster clock.

    policy: what it is planned with; it says how past use decays, and how long jobs may run.
    As many queries for a large cluster as for a small one; call it inside `consistent_read`.
    What this process has seen before and has not changed is not read again, and is the same object.
    """
    with own_known(cluster.pk) as known:
        return take_knowing(known, cluster, at=at, policy=policy)


def take_knowing(
    known: Known, cluster: Cluster, *, at: datetime, policy: Policy = DEFAULT
) -> Snapshot:
    """As `take`, with what is `known`, which is brought up to date: it changes no snapshot."""
    rows = Rows(cluster, known, at)
    return Snapshot.of(
        taken_at=seconds(at),
        flavors=(*(flavor.name for flavor in rows.flavors), NO_FLAVOR),
        **rows.hardware.parts,
        **promises.closing_times(rows, at),
        **holding.room(rows.holders, rows.hardware),
        tenant_ids=tuple(tenant.pk for tenant in rows.tenants),
        tenant_names=tuple(tenant.slug for tenant in rows.tenants),
        tenant_strict=[tenant.is_strict for tenant in rows.tenants],
        **promises.budgets(rows, policy, at),
        **promises.history(rows, policy, at),
        cohort_names=tuple(cohort.name for cohort in rows.cohorts),
        quotas=quota_table(rows),
        pending=tuple(rows.waiting),
        running=tuple(holder.job for holder in rows.holders),
        holds=kept_devices(cluster, rows.positions, at),
        blocks=promises.blocks(rows, at),
    )
