"""How many members of a job each node could hold."""

import numpy as np

from scheduling.engine.arrays import UNLIMITED, BoolArray, IntArray
from scheduling.engine.jobs import Access, JobSpec, Request, ServiceClass
from scheduling.engine.ledger import Ledger
from scheduling.engine.snapshot import UNKNOWN


def member_slots(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    """Members asking for `request` that each node could hold at this moment.

    Returns (N,). A member that asks for nothing at all fits UNLIMITED times. Who may go to a node
    is asked elsewhere, save that nobody goes beside a job that bears no company.
    """
    fleet = ledger.fleet
    amounts = fleet.amounts(request)
    if amounts is None:
        return np.zeros(fleet.nodes, dtype=np.int64)
    slots: IntArray = _SLOTS[request.kind](ledger, job, request)
    for resource, amount in amounts:
        np.minimum(slots, ledger.free[resource] // amount, out=slots)
    if amounts:
        np.maximum(slots, 0, out=slots)
    critical = job.service_class == ServiceClass.LATENCY_CRITICAL
    company = ledger.crowd if critical else ledger.alone
    if company.any():
        slots[company > 0] = 0
    return slots


def _anywhere(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    del job, request
    return np.full(ledger.fleet.nodes, UNLIMITED, dtype=np.int64)


def _whole(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    if not job.gpu_memory_mib and not job.island:
        return ledger.whole // request.count if request.count > 1 else ledger.whole.copy()
    fleet = ledger.fleet
    free = ledger.whole_gpus() & fleet.large_enough(job)
    if not job.island:
        return fleet.per_node(free) // request.count
    slots = np.zeros(fleet.nodes, dtype=np.int64)
    own = np.bincount(fleet.island_of[free], minlength=int(fleet.island_of.max(initial=-1)) + 1)
    node = fleet.snapshot.gpu_node
    np.maximum.at(slots, node, own[fleet.island_of] // request.count)
    return slots


def _slices(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    snapshot = ledger.fleet.snapshot
    free = slice_rows(ledger, job, request)
    node = snapshot.gpu_node[snapshot.mig_gpu[free]]
    return np.bincount(node, minlength=ledger.fleet.nodes) // request.count


def _shares(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    fleet = ledger.fleet
    by_gpu = shares_by_gpu(ledger, job, request)
    return fleet.sum_per_node(by_gpu, fleet.snapshot.gpu_node) // request.count


def _fractions(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    fleet = ledger.fleet
    by_gpu = fractions_by_gpu(ledger, job, request)
    return fleet.sum_per_node(by_gpu, fleet.snapshot.gpu_node)


_SLOTS = {
    Access.NONE: _anywhere,
    Access.WHOLE: _whole,
    Access.SLICE: _slices,
    Access.SHARE: _shares,
    Access.FRACTION: _fractions,
}


def slice_rows(ledger: Ledger, job: JobSpec, request: Request) -> BoolArray:
    """(I,) free instances of the profile that `request` names."""
    snapshot = ledger.fleet.snapshot
    if request.profile not in snapshot.profiles:
        return np.zeros(len(snapshot.mig_gpu), dtype=np.bool_)
    profile = snapshot.mig_profile == snapshot.profiles.index(request.profile)
    large = ledger.fleet.large_enough(job)[snapshot.mig_gpu]
    rows: BoolArray = ledger.instances & profile & large
    return rows


def shares_by_gpu(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    """(G,) replicas that each GPU could give to members of this request.

    Where the memory of a board is unknown the slot alone decides, as it does on a MIG instance.
    """
    snapshot = ledger.fleet.snapshot
    gpus = len(snapshot.gpu_ids)
    free = ledger.slots
    on_board = snapshot.slot_instance == UNKNOWN
    slots = np.bincount(snapshot.slot_gpu[free & on_board], minlength=gpus)
    if request.gpu_memory_mib:
        by_memory = np.maximum(ledger.gpu_memory, 0) // request.gpu_memory_mib
        slots = np.where(snapshot.gpu_memory_mib > 0, np.minimum(slots, by_memory), slots)
    slots = slots + np.bincount(snapshot.slot_gpu[free & ~on_board], minlength=gpus)
    may = ledger.fleet.large_enough(job)
    if request.count > 1:
        may = may & snapshot.gpu_many
    return np.where(may, slots, 0)


def fractions_by_gpu(ledger: Ledger, job: JobSpec, request: Request) -> IntArray:
    """(G,) members that each shared GPU could hold by compute and by memory."""
    may = ledger.fleet.hami & ledger.fleet.large_enough(job)
    fits = np.maximum(ledger.gpu_milli, 0) // max(1, request.gpu_milli)
    if request.gpu_memory_mib:
        np.minimum(fits, np.maximum(ledger.gpu_memory, 0) // request.gpu_memory_mib, out=fits)
    return np.where(may, fits, 0)
