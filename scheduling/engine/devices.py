"""Which GPUs of a node a member gets."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FreeGpu:
    """A whole free GPU of one node: its index, its NVLink island and its NUMA node."""

    gpu: int
    island: int
    numa: int


def choose_gpus(free: Sequence[FreeGpu], count: int) -> tuple[int, ...]:
    """`count` of the free GPUs of one node, in GPU order.

    Fewest NVLink islands, then one NUMA node, then the islands that are used most already, so
    that whole islands stay whole; then GPU order. free: at least `count`, in GPU order.
    """
    if count == len(free):
        return tuple(gpu.gpu for gpu in free)
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
        island = enough[-1] if enough else left[0]
        if enough:
            island = min(enough, key=lambda other: (len(other), other[0].gpu))
        left.remove(island)
        chosen += _same_numa_first(island)[:need]
    return sorted(chosen, key=lambda gpu: gpu.gpu)


def _same_numa_first(island: Sequence[FreeGpu]) -> list[FreeGpu]:
    sizes = Counter(gpu.numa for gpu in island)
    return sorted(island, key=lambda gpu: (-sizes[gpu.numa], gpu.numa, gpu.gpu))
