"""How many members of a job each node could hold."""

import numpy as np

from scheduling.engine.arrays import UNLIMITED, IntArray
from scheduling.engine.jobs import Access, JobSpec, Request
from scheduling.engine.ledger import WHOLE_MILLI, Ledger


def member_slots(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    """Members asking for `request` that each node could hold at this moment, whoever may go there.

    Returns (N,). A member that asks for nothing at all fits UNLIMITED times.
    """
    fleet = ledger.fleet
    vector = fleet.vector(request)
    if vector is None:
        return np.zeros(fleet.nodes, dtype=np.int64)
    slots = _device_slots(ledger, job, request)
    for resource in np.flatnonzero(vector):
        np.minimum(slots, ledger.free[resource] // vector[resource], out=slots)
    return np.maximum(slots, 0, out=slots)


def _device_slots(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    """As `member_slots`, by devices alone."""
    if request.kind == Access.NONE:
        return np.full(ledger.fleet.nodes, UNLIMITED, dtype=np.int64)
    whole = ledger.whole
    if job.gpu_memory_mib:
        snapshot = ledger.fleet.snapshot
        large = snapshot.gpu_memory_mib >= job.gpu_memory_mib
        free = ledger.fleet.exclusive & (ledger.gpu_milli == WHOLE_MILLI)
        whole = ledger.fleet.per_node(free & large)
    return whole // request.count
