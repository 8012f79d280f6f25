"""Layouts, what of them is seen on nodes, and rollouts: the rows of operators' pages."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from scheduling.models import LayoutRequest
from topology.models import Cluster, Layout, LayoutVersion, Node, NodeChange, Rollout
from topology.querysets import NodeQuerySet
from topology.services.layouts import boards_of, offers_of, wish_of
from topology.states import Step

MOST_ROLLOUTS = 20


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A layout with its newest version. nodes: of its kind. like_it: those that offer just that."""

    layout: Layout
    version: LayoutVersion
    nodes: int
    like_it: int


@dataclass(frozen=True, slots=True)
class DriftRow:
    """A node that no longer offers what a rollout verified on it."""

    node: Node
    version: LayoutVersion
    wanted: dict[str, int]
    seen: dict[str, int]


@dataclass(frozen=True, slots=True)
class RolloutRow:
    rollout: Rollout
    nodes: int
    verified: int
    failed: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that are alike: so many GPUs of one board."""

    model: str
    gpus: int
    nodes: tuple[Node, ...]

    @property
    def key(self) -> str:
        return f"{self.model}:{self.gpus}"


def with_boards(nodes: NodeQuerySet) -> NodeQuerySet:
    """`nodes` with all that says what boards they have and how those are cut."""
    return nodes.select_related("flavor").prefetch_related("gpus__instances")


def nodes_for(layout: Layout) -> NodeQuerySet:
    """The present nodes of the kind that `layout` is for. Two queries."""
    present = layout.cluster.nodes.present()
    wanted = (layout.gpu_model, layout.gpu_count)
    boards = boards_of(present)
    return present.filter(
        pk__in=[key for key, (board, count) in boards.items() if (board.key, count) == wanted]
    )


def kinds_in(cluster: Cluster) -> list[Kind]:
    """The present nodes by what they are; nodes of boards that nobody knows are left out."""
    found: dict[tuple[str, int], list[Node]] = {}
    present = cluster.nodes.present()
    boards = boards_of(present)
    for node in present.defer("survey").in_name_order():
        if node.pk in boards:
            board, count = boards[node.pk]
            found.setdefault((board.key, count), []).append(node)
    return [Kind(*key, tuple(nodes)) for key, nodes in sorted(found.items())]


def layout_rows(cluster: Cluster, kinds: Sequence[Kind]) -> list[LayoutRow]:
    """Every layout of `cluster`, by name."""
    nodes = {(kind.model, kind.gpus): kind.nodes for kind in kinds}
    rows = []
    for layout in cluster.layouts.order_by("name", "pk").prefetch_related("versions"):
        version = max(layout.versions.all(), key=lambda own: own.number)
        version.layout = layout
        own = nodes.get((layout.gpu_model, layout.gpu_count), ())
        offers = offers_of(wish_of(version))
        like_it = sum(node.layout_seen.get("offers") == offers for node in own)
        rows.append(LayoutRow(layout, version, len(own), like_it))
    return rows


def drift_in(cluster: Cluster) -> list[DriftRow]:
    """Nodes of which the last thing that was verified is no longer seen, by name."""
    rows = _drifted(NodeChange.objects.filter(rollout__cluster=cluster))
    return sorted(rows, key=lambda row: row.node.name)


def drifted_by_cluster() -> Counter[int]:
    """How many such nodes there are, by the key of their cluster. One query."""
    return Counter(row.node.cluster_id for row in _drifted(NodeChange.objects.all()))


def _drifted(changes: QuerySet[NodeChange]) -> Iterator[DriftRow]:
    there = changes.filter(node__gone_at=None).exclude(step=Step.REVERTED)
    newest = there.order_by("node_id", "-pk").distinct("node_id")
    for change in newest.select_related("node", "rollout__version__layout"):
        version = change.rollout.version
        wanted, seen = offers_of(wish_of(version)), change.node.layout_seen.get("offers", {})
        if change.step == Step.VERIFIED and wanted != seen:
            yield DriftRow(change.node, version, wanted, seen)


def rollout_rows(cluster: Cluster) -> list[RolloutRow]:
    """The newest rollouts of `cluster`."""
    rollouts = Rollout.objects.filter(cluster=cluster).order_by("-pk")
    counted = rollouts.select_related("version__layout", "begun_by").annotate(
        nodes=Count("changes"),
        verified=Count("changes", filter=Q(changes__step=Step.VERIFIED)),
        failed=Count("changes", filter=Q(changes__step=Step.FAILED)),
    )
    return [RolloutRow(own, own.nodes, own.verified, own.failed) for own in counted[:MOST_ROLLOUTS]]


def wishes_of_the_planner(cluster: Cluster) -> list[tuple[LayoutRequest, str]]:
    """GPUs that the planner would have cut anew for a waiting job, and into what."""
    open_ones = LayoutRequest.objects.filter(cluster=cluster, closed_at=None)
    return [
        (own, in_words(Counter(profile for profile, _start in own.layout)))
        for own in open_ones.select_related("gpu__node", "job").order_by("gpu__node__name", "pk")
    ]


def in_words(counts: dict[str, int]) -> str:
    """As "2 × 3g.20gb, 1 × 1g.5gb"."""
    return ", ".join(f"{count} × {name}" for name, count in counts.items())
