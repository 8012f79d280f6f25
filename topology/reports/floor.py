"""The floor plan of a cluster: pools of one flavor, racks in them, nodes, GPUs in islands."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from topology.models import Gpu, Node
from topology.querysets import NodeQuerySet


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node with its GPUs in their order, one tuple per NVLink island."""

    node: Node
    islands: tuple[tuple[Gpu, ...], ...]

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for island in self.islands for gpu in island)

    @property
    def state(self) -> str:
        return state_of(self.node)


@dataclass(frozen=True, slots=True)
class RackPlan:
    """name: empty for nodes whose rack is not known."""

    name: str
    nodes: tuple[NodePlan, ...]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """name: empty for nodes without a flavor."""

    name: str
    racks: tuple[RackPlan, ...]

    @property
    def nodes(self) -> tuple[NodePlan, ...]:
        return tuple(node for rack in self.racks for node in rack.nodes)


def floor_plan(nodes: NodeQuerySet) -> tuple[PoolPlan, ...]:
    """`nodes` with their GPUs; pools, racks and nodes by name. Two queries."""
    plans = [node_plan(node) for node in with_gpus(nodes).in_name_order()]
    plans.sort(key=lambda plan: (_pool(plan), _rack(plan)))
    return tuple(PoolPlan(name, _racks(members)) for name, members in groupby(plans, key=_pool))


def with_gpus(nodes: NodeQuerySet) -> NodeQuerySet:
    """`nodes` with all that `node_plan` reads."""
    return nodes.select_related("flavor", "rack", "fabric").prefetch_related("gpus")


def node_plan(node: Node) -> NodePlan:
    gpus = sorted(node.gpus.all(), key=lambda gpu: (gpu.island, gpu.index))
    islands = groupby(gpus, key=lambda gpu: gpu.island)
    return NodePlan(node, tuple(tuple(members) for _island, members in islands))


def state_of(node: Node) -> str:
    """What a node is, as pages say it: open, cordoned, closed by others, not_ready or gone."""
    if node.gone_at is not None:
        return "gone"
    if not node.is_ready:
        return "not_ready"
    if node.is_cordoned:
        return "cordoned"
    return "open" if node.is_open else "closed"


def _racks(plans: Iterable[NodePlan]) -> tuple[RackPlan, ...]:
    return tuple(RackPlan(name, tuple(members)) for name, members in groupby(plans, key=_rack))


def _pool(plan: NodePlan) -> str:
    return plan.node.flavor.name if plan.node.flavor else ""


def _rack(plan: NodePlan) -> str:
    return plan.node.rack.name if plan.node.rack else ""
