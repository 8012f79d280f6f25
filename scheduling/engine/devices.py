"""Which devices of a node the members on it get."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduling.engine.fit import fractions_by_gpu, shares_by_gpu, slice_rows
from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, PlacedMember
from scheduling.engine.ledger import WHOLE_MILLI, Ledger
from scheduling.engine.locality import Seats


@dataclass(frozen=True, slots=True)
class FreeGpu:
    """A whole free GPU of one node: its index, its NVLink island and its NUMA node."""

    gpu: int
    island: int
    numa: int


def with_devices(
    ledger: Ledger, job: JobSpec, group: int, seats: Seats
) -> tuple[PlacedMember, ...]:
    """Members of one group in ranks, on these nodes and on devices of theirs.

    The nodes have room for them; nothing is taken from the ledger.
    """
    request = job.groups[group].request
    pick = _PICKS.get(request.kind)
    members: list[PlacedMember] = []
    for node, count in seats:
        first = len(members)
        bare = [PlacedMember(group, first + index, node) for index in range(count)]
        members += pick(ledger, job, node, bare) if pick else bare
    return tuple(members)


def _pick_whole(
    ledger: Ledger, job: JobSpec, node: int, members: Sequence[PlacedMember]
) -> Iterable[PlacedMember]:
    count = job.groups[members[0].group].request.count
    free = free_gpus(ledger, job, node)
    if ledger.fleet.is_uniform(node) or count * len(members) == len(free) == count:
        chosen = [tuple(free[count * own : count * (own + 1)]) for own in range(len(members))]
    else:
        left = _with_links(ledger.fleet, free)
        if job.island:
            left = _one_island(left, count * len(members))
        chosen = _one_after_another(left, [count] * len(members))
    return [
        PlacedMember(member.group, member.rank, node, gpus)
        for member, gpus in zip(members, chosen, strict=True)
    ]


def _one_after_another(free: list[FreeGpu], counts: Sequence[int]) -> list[tuple[int, ...]]:
    chosen = []
    for count in counts:
        gpus = choose_gpus(free, count)
        free = [other for other in free if other.gpu not in gpus]
        chosen.append(gpus)
    return chosen


def _pick_slices(
    ledger: Ledger, job: JobSpec, node: int, members: Sequence[PlacedMember]
) -> Iterable[PlacedMember]:
    """Instances of the boards with the fewest free ones, so that other boards stay whole."""
    snapshot = ledger.fleet.snapshot
    request = job.groups[members[0].group].request
    own = ledger.fleet.gpus_of(node)
    on_node = (snapshot.mig_gpu >= own.start) & (snapshot.mig_gpu < own.stop)
    free_on = Counter(snapshot.mig_gpu[ledger.instances & on_node].tolist())
    rows = np.flatnonzero(slice_rows(ledger, job, request) & on_node).tolist()
    rows.sort(key=lambda row: (free_on[int(snapshot.mig_gpu[row])], row))
    for index, member in enumerate(members):
        mine = rows[index * request.count : (index + 1) * request.count]
        yield replace(member, instances=tuple(sorted(mine)))


def _pick_shares(
    ledger: Ledger, job: JobSpec, node: int, members: Sequence[PlacedMember]
) -> Iterable[PlacedMember]:
    """Replicas of the GPU that has the fewest left, so that other boards stay whole."""
    snapshot = ledger.fleet.snapshot
    request = job.groups[members[0].group].request
    own = ledger.fleet.gpus_of(node)
    by_gpu = shares_by_gpu(ledger, job, request)
    fullest_first = sorted((gpu for gpu in own if by_gpu[gpu]), key=lambda gpu: (by_gpu[gpu], gpu))
    free = ledger.slots
    rows = [
        row
        for gpu in fullest_first
        for row in np.flatnonzero(free & (snapshot.slot_gpu == gpu)).tolist()[: int(by_gpu[gpu])]
    ]
    for index, member in enumerate(members):
        mine = rows[index * request.count : (index + 1) * request.count]
        yield replace(member, slots=tuple(sorted(mine)))


def _pick_fractions(
    ledger: Ledger, job: JobSpec, node: int, members: Sequence[PlacedMember]
) -> Iterable[PlacedMember]:
    """A part of the GPU with the least left that still holds it."""
    request = job.groups[members[0].group].request
    fits = fractions_by_gpu(ledger, job, request)
    left = {gpu: int(fits[gpu]) for gpu in ledger.fleet.gpus_of(node) if fits[gpu]}
    milli = {gpu: int(ledger.gpu_milli[gpu]) for gpu in left}
    for member in members:
        gpu = min((own for own in left if left[own]), key=lambda own: (milli[own], own))
        left[gpu] -= 1
        milli[gpu] -= request.gpu_milli
        yield replace(member, gpus=(gpu,))


_PICKS: Final = {
    Access.WHOLE: _pick_whole,
    Access.SLICE: _pick_slices,
    Access.SHARE: _pick_shares,
    Access.FRACTION: _pick_fractions,
}


def free_gpus(ledger: Ledger, job: JobSpec, node: int) -> list[int]:
    """The whole free GPUs of one node that `job` may have, in GPU order."""
    fleet = ledger.fleet
    own = fleet.gpus_of(node)
    milli = ledger.gpu_milli[own.start : own.stop].tolist()
    may = fleet.is_exclusive
    free = [gpu for gpu, left in zip(own, milli, strict=True) if left == WHOLE_MILLI and may[gpu]]
    if job.gpu_memory_mib:
        large = fleet.large_enough(job)
        free = [gpu for gpu in free if large[gpu]]
    return free


def _with_links(fleet: Fleet, gpus: Sequence[int]) -> list[FreeGpu]:
    island, numa = fleet.snapshot.gpu_island, fleet.snapshot.gpu_numa
    return [FreeGpu(gpu, int(island[gpu]), int(numa[gpu])) for gpu in gpus]


def _one_island(free: Sequence[FreeGpu], count: int) -> list[FreeGpu]:
    """The free GPUs of the island that has the fewest of them that are enough."""
    sizes = Counter(gpu.island for gpu in free)
    enough = [island for island, size in sizes.items() if size >= count]
    best = min(enough, key=lambda island: (sizes[island], island))
    return [gpu for gpu in free if gpu.island == best]


def choose_gpus(free: Sequence[FreeGpu], count: int) -> tuple[int, ...]:
    """`count` of the free GPUs of one node, in GPU order.

    Fewest NVLink islands, then one NUMA node, then the islands that are used most already, so
    that whole islands stay whole; then GPU order. free: at least `count`, in GPU order.
    """
    if count == len(free):
        return tuple(gpu.gpu for gpu in free)
    if len({(gpu.island, gpu.numa) for gpu in free}) == 1:
        return tuple(gpu.gpu for gpu in free[:count])
    pools = [list(free)]
    for numa in sorted({gpu.numa for gpu in free}):
        pool = [gpu for gpu in free if gpu.numa == numa]
        if count <= len(pool) < len(free):
            pools.append(pool)
    sizes = Counter(gpu.island for gpu in free)
    choices = [_fewest_islands(pool, count) for pool in pools]

    def rank(choice: list[FreeGpu]) -> tuple[int, int, int, list[int]]:
        islands = {gpu.island for gpu in choice}
        numas = {gpu.numa for gpu in choice}
        room = sum(sizes[island] for island in sorted(islands))
        return len(islands), len(numas), room, [gpu.gpu for gpu in choice]

    return tuple(gpu.gpu for gpu in min(choices, key=rank))


def _fewest_islands(pool: Sequence[FreeGpu], count: int) -> list[FreeGpu]:
    """`count` GPUs of the pool in as few islands as possible: the fullest that do, GPU order."""
    islands: dict[int, list[FreeGpu]] = defaultdict(list)
    for gpu in pool:
        islands[gpu.island].append(gpu)
    left = sorted(islands.values(), key=lambda island: (-len(island), island[0].gpu))
    chosen: list[FreeGpu] = []
    while len(chosen) < count:
        need = count - len(chosen)
        enough = [island for island in left if len(island) >= need]
        tightest = min(enough, key=lambda other: (len(other), other[0].gpu), default=None)
        island = left[0] if tightest is None else tightest
        left.remove(island)
        chosen += _same_numa_first(island)[:need]
    return sorted(chosen, key=lambda gpu: gpu.gpu)


def _same_numa_first(island: Sequence[FreeGpu]) -> list[FreeGpu]:
    sizes = Counter(gpu.numa for gpu in island)
    return sorted(island, key=lambda gpu: (-sizes[gpu.numa], gpu.numa, gpu.gpu))
