"""What the map of a cluster is drawn from: GPU by GPU, or of a large cluster node by node."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from scheduling.reports.occupancy import (
    KINDS,
    GpuUse,
    NodeUse,
    count_kinds,
    holders_in,
    marks_of,
    node_uses,
)
from scheduling.web.drawing import NodePicture, draw
from tenants.models import User
from topology.models import Cluster
from topology.querysets import NodeQuerySet
from topology.reports.floor import floor_plan

MOST_GPUS = 2_000  # that are drawn one by one
KIND_LABELS: dict[str, Promise] = {
    "free": _("free"),
    "mine": _("running"),
    "moving": _("starting or stopping"),
    "other": _("in use by other tenants"),
    "closed": _("on a node that takes no jobs"),
    "fault": _("faulty"),
    "unknown": _("on a node that is not ready"),
}
NODE_STATES: dict[str, Promise] = {
    "open": _("open"),
    "cordoned": _("cordoned"),
    "closed": _("left to others"),
    "not_ready": _("not ready"),
    "gone": _("gone"),
}


@dataclass(frozen=True, slots=True)
class Rack:
    """nodes: pictures of their GPUs, or in a large map how they are used."""

    name: str
    nodes: tuple[NodePicture, ...] | tuple[NodeUse, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    racks: tuple[Rack, ...]

    @property
    def nodes(self) -> tuple[NodePicture | NodeUse, ...]:
        return tuple(node for rack in self.racks for node in rack.nodes)

    @property
    def gpu_count(self) -> int:
        return sum(node.total for node in self.nodes)

    @property
    def free_count(self) -> int:
        return sum(node.free for node in self.nodes)

    @property
    def may_be_near(self) -> bool:
        """Whether it is small enough to be drawn GPU by GPU."""
        return self.gpu_count <= MOST_GPUS


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """What map, table twin and legend are drawn from. counts: (kind, its words, GPUs).

    is_far: a cell is a node, not a GPU.
    """

    pools: tuple[Pool, ...]
    counts: tuple[tuple[str, Promise, int], ...]
    is_far: bool = False

    @property
    def gpu_count(self) -> int:
        return sum(count for _kind, _label, count in self.counts)

    @property
    def free_count(self) -> int:
        return sum(pool.free_count for pool in self.pools)

    @property
    def node_count(self) -> int:
        return sum(len(pool.nodes) for pool in self.pools)


def map_of(
    cluster: Cluster | None, *, reader: User, pool: str = "", rack: str = "", gpus: int = 0
) -> ClusterMap:
    """The map of `cluster`, or of one pool or rack of it, as far as `reader` may know.

    gpus: how many there are to draw, where the caller knows it.
    """
    if cluster is None:
        return ClusterMap((), ())
    nodes = _part(cluster, pool, rack)
    if (gpus or nodes.gpu_total()) > MOST_GPUS:
        return _far(nodes, reader)
    return _near(nodes, reader)


def marks_of_map(
    cluster: Cluster | None, *, reader: User, pool: str = "", rack: str = ""
) -> tuple[object, ...]:
    """What tells this map from an earlier one, at a fraction of its cost. Four queries."""
    return marks_of(_part(cluster, pool, rack), reader=reader) if cluster else ()


def _part(cluster: Cluster, pool: str, rack: str) -> NodeQuerySet:
    nodes = cluster.nodes.present()
    if pool:
        nodes = nodes.filter(flavor__name=pool)
    return nodes.filter(rack__name=rack) if rack else nodes


def _near(nodes: NodeQuerySet, reader: User) -> ClusterMap:
    holders = holders_in(nodes, reader=reader)
    pools = tuple(
        Pool(
            plan.name,
            tuple(
                Rack(rack.name, tuple(draw(node, holders) for node in rack.nodes))
                for rack in plan.racks
            ),
        )
        for plan in floor_plan(nodes)
    )
    return ClusterMap(pools, _labelled(count_kinds(_uses(pools))))


def _uses(pools: Iterable[Pool]) -> Iterable[GpuUse]:
    return (cell.use for pool in pools for node in pool.nodes for cell in node.cells)


def _far(nodes: NodeQuerySet, reader: User) -> ClusterMap:
    uses = sorted(node_uses(nodes, reader=reader), key=lambda use: (_pool(use), _rack(use)))
    pools = tuple(
        Pool(name, tuple(Rack(*rack) for rack in _grouped(members, _rack)))
        for name, members in _grouped(uses, _pool)
    )
    counts = {kind: sum(use.counts[kind] for use in uses) for kind in KINDS}
    return ClusterMap(pools, _labelled(counts), is_far=True)


def _grouped(
    uses: Iterable[NodeUse], key: Callable[[NodeUse], str]
) -> list[tuple[str, tuple[NodeUse, ...]]]:
    return [(name, tuple(members)) for name, members in groupby(uses, key=key)]


def _pool(use: NodeUse) -> str:
    return use.node.flavor.name if use.node.flavor else ""


def _rack(use: NodeUse) -> str:
    return use.node.rack.name if use.node.rack else ""


def _labelled(counts: dict[str, int]) -> tuple[tuple[str, Promise, int], ...]:
    return tuple((kind, KIND_LABELS[kind], count) for kind, count in counts.items() if count)


def looks(drawn: ClusterMap) -> list[object]:
    """All that a map shows, small enough to be hashed."""
    nodes = (node for pool in drawn.pools for node in pool.nodes)
    if drawn.is_far:
        return [(node.node.name, node.state, tuple(node.counts.values())) for node in nodes]
    return [
        (node.node.name, node.state, [_look(cell.use) for cell in node.cells]) for node in nodes
    ]


def _look(use: GpuUse) -> tuple[int, str, str]:
    return use.gpu.pk, use.kind, use.holder.job_id or use.holder.tenant if use.holder else ""
