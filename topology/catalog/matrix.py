"""How the GPUs and network cards of one node are joined: a link for each pair, and what follows.

Islands are the parts of a node that NVLink joins completely, so that any two GPUs of an island
talk directly. A cube mesh of eight therefore has two islands of four, although NVLink leads from
each GPU of one into the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from topology.catalog.links import Link, LinkKind, set_points


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The links of one node with G GPUs and C network cards.

    gpus: (G,) their indexes. links: (G, G), None with itself. nics: (C,) device names, as mlx5_0.
    nic_links: (G, C). numa: (G,) NUMA nodes of each GPU, empty where unknown.
    cpus: (G,) ranges of CPUs near each, as 0-47,96-143; empty where unknown.
    """

    gpus: tuple[int, ...]
    links: tuple[tuple[Link | None, ...], ...]
    nics: tuple[str, ...]
    nic_links: tuple[tuple[Link, ...], ...]
    numa: tuple[frozenset[int], ...]
    cpus: tuple[str, ...]

    def pairs(self, positions: Sequence[int] | None = None) -> Iterator[Link]:
        """The links inside a set of GPUs, given by their positions; of all, if none is given."""
        chosen = range(len(self.gpus)) if positions is None else positions
        for one, other in combinations(chosen, 2):
            link = self.links[one][other]
            if link is not None:
                yield link

    def nearest_nics(self, position: int) -> tuple[str, ...]:
        """The network cards that stand closest to one GPU, in order; none without cards."""
        own = self.nic_links[position]
        best = max(own, default=None)
        return tuple(nic for nic, link in zip(self.nics, own, strict=True) if link == best)

    def islands(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the GPUs in each island, ordered by the first.

        The largest complete part is taken first, of equal ones that with the most NVLinks, then the
        one with the lowest positions; then the largest of what is left.
        """
        left = set(range(len(self.gpus)))
        found = []
        while left:
            best = min(self._complete(left), key=self._island_key)
            found.append(best)
            left -= set(best)
        return tuple(sorted(found))

    def island_of(self) -> tuple[int, ...]:
        """(G,) the number of each GPU's island."""
        number = {gpu: index for index, own in enumerate(self.islands()) for gpu in own}
        return tuple(number[position] for position in range(len(self.gpus)))

    def _island_key(self, island: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        return -len(island), -set_points(self.pairs(island)), island

    def _complete(self, left: set[int]) -> Iterator[tuple[int, ...]]:
        """The sets of GPUs joined completely by NVLink to which none of `left` can be added."""
        peers = {one: {other for other in left if self._is_nvlink(one, other)} for one in left}
        yield from _grow((), left, set(), peers)

    def _is_nvlink(self, one: int, other: int) -> bool:
        link = self.links[one][other]
        return link is not None and link.kind == LinkKind.NVLINK


def _grow(
    chosen: tuple[int, ...], candidates: set[int], done: set[int], peers: dict[int, set[int]]
) -> Iterator[tuple[int, ...]]:
    """Maximal cliques (C. Bron, J. Kerbosch, 1973, with pivoting): each once, sorted."""
    if not candidates and not done:
        yield tuple(sorted(chosen))
        return
    pivot = max(sorted(candidates | done), key=lambda own: len(peers[own] & candidates))
    for one in sorted(candidates - peers[pivot]):
        yield from _grow((*chosen, one), candidates & peers[one], done & peers[one], peers)
        candidates = candidates - {one}
        done = done | {one}
