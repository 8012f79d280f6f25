import numpy as np

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.snapshot import PARTS_PER_GPU, UNKNOWN, Quotas
from scheduling.snapshots.holding import usage
from scheduling.snapshots.rows import Rows


def quota_table(rows: Rows) -> Quotas:
    """Every tenant is limited to what its quotas say; without any it has nothing of its own."""
    shape = (len(rows.tenants) + len(rows.cohorts), len(rows.flavors) + 1)
    nominal = np.zeros(shape, dtype=np.int64)
    borrowing, lending = np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
    tenant_at, first = rows.positions.tenants, len(rows.tenants)
    cohort_at = {cohort.pk: first + index for index, cohort in enumerate(rows.cohorts)}
    for quota in rows.quotas:
        row = tenant_at.get(quota.tenant_id, cohort_at.get(quota.cohort_id))
        at = (row, rows.positions.flavors[quota.flavor_id])
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
        parent=[cohort_at.get(cohort, UNKNOWN) for cohort in up],
        weight=[row.weight for row in (*rows.tenants, *rows.cohorts)],
        limited=[True] * shape[0],
        nominal=nominal,
        borrowing_limit=borrowing,
        lending_limit=lending,
        usage=usage(rows.holders, rows.hardware, (len(rows.tenants), shape[1])),
    )
