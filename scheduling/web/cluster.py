from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from portal.core.clock import cluster_time
from portal.core.web import polled, signed_in, tag_of
from scheduling.models import Job
from scheduling.reports.jobs import job_rows, with_rows
from scheduling.reports.occupancy import GpuUse, Holder, count_kinds, holders_in, holders_on
from scheduling.web.drawing import NodePicture, draw
from scheduling.web.layouts.drawing import bars_of
from topology.models import Node
from topology.reports.floor import PoolPlan, floor_plan, node_plan, with_gpus
from topology.reports.links import link_table, survey_of
from topology.web.clusters import chosen_cluster

LOOK_EVERY = 15.0  # seconds
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
    name: str
    nodes: tuple[NodePicture, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    racks: tuple[Rack, ...]

    @property
    def nodes(self) -> tuple[NodePicture, ...]:
        return tuple(node for rack in self.racks for node in rack.nodes)

    @property
    def gpu_count(self) -> int:
        return sum(len(node.cells) for node in self.nodes)

    @property
    def free_count(self) -> int:
        return sum(node.free for node in self.nodes)


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """What map, table twin and legend are drawn from. counts: (kind, its words, GPUs)."""

    pools: tuple[Pool, ...]
    counts: tuple[tuple[str, Promise, int], ...]

    @property
    def gpu_count(self) -> int:
        return sum(count for _kind, _label, count in self.counts)

    @property
    def free_count(self) -> int:
        return sum(pool.free_count for pool in self.pools)

    @property
    def node_count(self) -> int:
        return sum(len(pool.nodes) for pool in self.pools)


def draw_map(plans: tuple[PoolPlan, ...], holders: dict[int, Holder]) -> ClusterMap:
    pools = tuple(
        Pool(
            plan.name, tuple(Rack(rack.name, _pictures(rack.nodes, holders)) for rack in plan.racks)
        )
        for plan in plans
    )
    uses = [cell.use for pool in pools for node in pool.nodes for cell in node.cells]
    counts = count_kinds(uses)
    return ClusterMap(
        pools, tuple((kind, KIND_LABELS[kind], count) for kind, count in counts.items() if count)
    )


@require_safe
@signed_in
def cluster_map(request: HttpRequest) -> HttpResponse:
    """Every GPU of the cluster and what it does."""
    cluster = chosen_cluster(request)
    drawn = ClusterMap((), ())
    if cluster is not None:
        drawn = draw_map(floor_plan(cluster), holders_in(cluster, reader=request.user))
    return polled(
        request,
        ("scheduling/cluster_map.html", "scheduling/partials/_map.html"),
        lambda: {"map": drawn, "node_states": NODE_STATES, "kinds": KIND_LABELS},
        tag=tag_of(request, cluster, looks(drawn)),
        every=LOOK_EVERY,
    )


@require_safe
@signed_in
def node_page(request: HttpRequest, name: str) -> HttpResponse:
    """One node: its GPUs, their islands, the jobs on it."""
    nodes = with_gpus(Node.objects.select_related("cluster"))
    cluster = chosen_cluster(request)
    node = get_object_or_404(nodes, cluster=cluster, name=name)
    holders = holders_on(node, reader=request.user)
    job_ids = {holder.job_id for holder in holders.values() if holder.job_id}
    jobs = Job.objects.visible_to(request.user).filter(public_id__in=job_ids).newest_first()
    wall = timezone.now()
    shown = {
        "node": node,
        "changed_at": cluster_time(node.cluster, wall=node.seen_at) if node.seen_at else None,
        "picture": draw(node_plan(node), holders),
        "links": link_table(node),
        "bars": bars_of(node),
        "survey": survey_of(node),
        "node_states": NODE_STATES,
        "kinds": KIND_LABELS,
        "rows": job_rows(with_rows(jobs), wall=wall),
        "others": any(not holder.job_id for holder in holders.values()),
    }
    return render(request, "scheduling/node.html", shown)


def _pictures(plans: tuple, holders: dict[int, Holder]) -> tuple[NodePicture, ...]:
    return tuple(draw(plan, holders) for plan in plans)


def looks(drawn: ClusterMap) -> list[object]:
    """All that a map shows, small enough to be hashed."""
    return [
        (node.plan.node.name, node.plan.state, [_look(cell.use) for cell in node.cells])
        for pool in drawn.pools
        for node in pool.nodes
    ]


def _look(use: GpuUse) -> tuple[int, str, str]:
    return use.gpu.pk, use.kind, use.holder.job_id or use.holder.tenant if use.holder else ""
