import numpy as np

from scheduling.engine.arrays import UNLIMITED, IntArray
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Quotas
from scheduling.snapshots.rows import Rows


def quota_table(rows: Rows) -> Quotas:
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


def _usage(rows: Rows, flavors: int) -> IntArray:
    """(T, F) parts that each tenant's placements hold; those that are stopping count too.

    Standby jobs are not charged.
    """
    usage = np.zeros((len(rows.tenants), flavors), dtype=np.int64)
    for job in rows.holding:
        for member in () if job.is_standby else rows.held.get(job.pk, ()):
            flavor = rows.flavor_at.get(rows.nodes[member.node].flavor_id)
            if flavor is not None:
                usage[rows.tenant_at[job.tenant_id], flavor] += len(member.gpus) * PARTS_PER_GPU
    return usage
