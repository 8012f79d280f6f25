"""Which job holds which GPU, told to each reader as far as it is their business."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Count

from portal.core.db import digest_of
from scheduling.models import PlacementGpu
from scheduling.querysets import PlacementGpuQuerySet
from scheduling.states import JobState
from tenants.access import seen_tenants, sees
from tenants.models import User
from topology.models import Gpu, Node
from topology.querysets import NodeQuerySet
from topology.reports.floor import state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a GPU. Of a job that is not the reader's business only the tenant is named."""

    tenant: str
    job_id: str = ""
    job_name: str = ""
    job_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """kind: free, mine, moving (mine, being started or stopped), other, closed, fault, unknown."""

    gpu: Gpu
    kind: str
    holder: Holder | None


_STATE = (
    *("name", "is_ready", "is_cordoned", "is_changing", "gone_at"),
    *("taints", "others", "strays", "back_ends"),
)
_NAMES = ("flavor__name", "rack__name")
_OF_NODE = ("pk", *_STATE, *_NAMES)
_OF_GPU = ("pk", "node", "index", "island", "is_healthy")
_OF_HOLDER = ("gpu", "placement__job__state", "placement__job", "placement__job__tenant__name")


def marks_of(nodes: NodeQuerySet, *, reader: User) -> tuple[object, ...]:
    """What tells all that is said here of `nodes` from what was said before. Four queries.

    It costs a fraction of what saying it does, so that a map which has not changed is cheap.
    """
    held = PlacementGpu.objects.active().filter(gpu__node__in=nodes)
    return (
        digest_of(nodes, *_OF_NODE),
        digest_of(Gpu.objects.filter(node__in=nodes), *_OF_GPU),
        digest_of(held, *_OF_HOLDER),
        None if reader.is_operator else sorted(seen_tenants(reader)),
    )


KINDS = ("free", "mine", "moving", "other", "closed", "fault", "unknown")


def holders_in(nodes: NodeQuerySet, *, reader: User) -> dict[int, Holder]:
    """The holder of each GPU of `nodes` that is held, by its key. Two queries.

    Of several that hold parts of a GPU it is one whose job is the reader's business, if any.
    """
    return _holders(PlacementGpu.objects.filter(gpu__node__in=nodes), reader)


def holders_on(node: Node, *, reader: User) -> dict[int, Holder]:
    """The holder of each GPU of `node` that is held, by its key. Two queries."""
    return _holders(PlacementGpu.objects.filter(gpu__node=node), reader)


def use_of(gpu: Gpu, node: Node, holders: dict[int, Holder]) -> GpuUse:
    """What is to be said of `gpu` on `node`: a fault first, then its holder, then its node."""
    holder = holders.get(gpu.pk)
    return GpuUse(gpu=gpu, kind=_kind(gpu, node, holder), holder=holder)


def count_kinds(uses: Iterable[GpuUse]) -> dict[str, int]:
    """How many GPUs are of each kind, in the order of the legend, zeros included."""
    counts = dict.fromkeys(KINDS, 0)
    for use in uses:
        counts[use.kind] += 1
    return counts


def _holders(held: PlacementGpuQuerySet, reader: User) -> dict[int, Holder]:
    is_seen = sees(reader)
    rows = held.active().values_list(
        "gpu_id",
        "placement__job__tenant_id",
        "placement__job__tenant__name",
        "placement__job__public_id",
        "placement__job__name",
        "placement__job__state",
    )
    found: dict[int, Holder] = {}
    for gpu, tenant, holder, job_id, name, state in rows:
        if is_seen(tenant):
            found[gpu] = Holder(tenant=holder, job_id=job_id, job_name=name, job_state=state)
        else:
            found.setdefault(gpu, Holder(tenant=holder))
    return found


def _kind(gpu: Gpu, node: Node, holder: Holder | None) -> str:
    if not gpu.is_healthy:
        return "fault"
    if not node.is_ready or node.gone_at is not None:
        return "unknown"
    if holder is None:
        return "free" if state_of(node) == "open" else "closed"
    if not holder.job_id:
        return "other"
    return "mine" if holder.job_state == JobState.RUNNING else "moving"


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node and how many of its GPUs are of each kind, in the order of the legend."""

    node: Node
    counts: Mapping[str, int]

    @property
    def state(self) -> str:
        return state_of(self.node)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def free(self) -> int:
        return self.counts["free"]

    @property
    def held(self) -> int:
        return sum(self.counts[kind] for kind in ("mine", "moving", "other"))


def node_uses(nodes: NodeQuerySet, *, reader: User) -> list[NodeUse]:
    """`nodes`, by name, with the use of their GPUs, without a row for each GPU. Four queries."""
    gpus = Gpu.objects.filter(node__in=nodes).order_by().values_list("node", "is_healthy")
    counts = {(node, is_healthy): n for node, is_healthy, n in gpus.annotate(n=Count("pk"))}
    held = _held_per_node(nodes, sees(reader))
    rows = nodes.select_related("flavor", "rack").only(*_SHOWN_OF_NODE).in_name_order()
    return [
        NodeUse(
            node,
            _counted(node, counts.get((node.pk, True), 0), counts.get((node.pk, False), 0), held),
        )
        for node in rows
    ]


_SHOWN_OF_NODE = (*_STATE, "cluster", "flavor", "rack", *_NAMES)


def _held_per_node(nodes: NodeQuerySet, is_seen: Callable[[int], bool]) -> dict[int, Counter[str]]:
    """By node, how many healthy GPUs are held by what kind of holder."""
    held = PlacementGpu.objects.active().filter(gpu__node__in=nodes, gpu__is_healthy=True)
    rows = held.order_by().values_list(
        "gpu__node", "gpu", "placement__job__tenant", "placement__job__state"
    )
    kinds: dict[tuple[int, int], str] = {}
    for node, gpu, tenant, state in rows:
        if not is_seen(tenant):
            kinds.setdefault((node, gpu), "other")
        else:
            kinds[node, gpu] = "mine" if state == JobState.RUNNING else "moving"
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for (node, _gpu), kind in kinds.items():
        found[node][kind] += 1
    return found


def _counted(
    node: Node, healthy: int, faulty: int, held: Mapping[int, Counter[str]]
) -> dict[str, int]:
    counts = dict.fromkeys(KINDS, 0) | {"fault": faulty}
    if not node.is_ready or node.gone_at is not None:
        return counts | {"unknown": healthy}
    taken = held.get(node.pk, Counter())
    rest = "free" if state_of(node) == "open" else "closed"
    return counts | taken | {rest: healthy - taken.total()}
