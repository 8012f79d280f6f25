"""The topology quality of a placement, from what the snapshot says of links and networks."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from scheduling.engine.fleet import Fleet
from scheduling.engine.jobs import Access, JobSpec, Level, PlacedMember
from scheduling.engine.snapshot import UNKNOWN
from topology.catalog.links import Closeness, quality

MILLI = 1000
TWO_GPUS = 2


def quality_of(fleet: Fleet, job: JobSpec, members: Sequence[PlacedMember]) -> int | None:
    """Quality from 0 to 100 of the whole GPUs of a gang; None below two GPUs."""
    whole = [own for own in members if job.groups[own.group].request.kind == Access.WHOLE]
    if sum(len(member.gpus) for member in whole) < TWO_GPUS:
        return None
    return quality(closeness_of(fleet, whole))


def closeness_of(fleet: Fleet, members: Sequence[PlacedMember]) -> Closeness:
    """The shares that the quality of a placement is made of."""
    nodes = sorted({member.node for member in members if member.gpus})
    several = len(nodes) > 1
    return Closeness(
        nvlink=_nvlink(fleet, members),
        network=_network(fleet, nodes) if several else None,
        gpudirect=_gpudirect(fleet, nodes) if several else None,
        numa=_numa(fleet, members),
    )


def _nvlink(fleet: Fleet, members: Sequence[PlacedMember]) -> Fraction:
    """Pairs of GPUs in one island, or in one NVLink domain that spans nodes, of all pairs."""
    gpus = [gpu for member in members for gpu in member.gpus]
    domain = fleet.domains(Level.NVL)
    node = fleet.snapshot.gpu_node
    in_island = Counter(int(fleet.island_of[gpu]) for gpu in gpus)
    on_node = Counter(int(node[gpu]) for gpu in gpus)
    in_domain = Counter(int(domain[node[gpu]]) for gpu in gpus)
    across = _pairs(in_domain) - _pairs(on_node)
    total = len(gpus) * (len(gpus) - 1) // 2
    return Fraction(_pairs(in_island) + across, total)


def _pairs(counts: Counter[int]) -> int:
    return sum(count * (count - 1) // 2 for count in counts.values())


def _network(fleet: Fleet, nodes: Sequence[int]) -> Fraction | None:
    """1 divided by the worst known oversubscription of the uplinks between the nodes."""
    worst = 0
    for level in Level:
        domain = fleet.domains(level)
        crossed = sorted({int(domain[node]) for node in nodes})
        if len(crossed) == 1:
            break
        oversub = fleet.snapshot.domain_oversub_milli[level]
        worst = max([worst, *(oversub[own] for own in crossed if own < len(oversub))])
    return Fraction(MILLI, max(MILLI, worst)) if worst else None


def _gpudirect(fleet: Fleet, nodes: Sequence[int]) -> Fraction | None:
    known = [int(fleet.snapshot.node_gpudirect[node]) for node in nodes]
    return None if UNKNOWN in known else Fraction(sum(known), len(known))


def _numa(fleet: Fleet, members: Sequence[PlacedMember]) -> Fraction | None:
    several = [member for member in members if len(member.gpus) >= TWO_GPUS]
    numa = fleet.snapshot.gpu_numa
    if not several or any(numa[gpu] == UNKNOWN for own in several for gpu in own.gpus):
        return None
    agree = sum(len({int(numa[gpu]) for gpu in member.gpus}) == 1 for member in several)
    return Fraction(agree, len(several))
