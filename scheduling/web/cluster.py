from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.core.clock import cluster_time
from portal.core.web import polled, signed_in, tag_of
from scheduling.models import Job
from scheduling.reports.jobs import job_rows, with_rows
from scheduling.reports.occupancy import holders_on
from scheduling.web.drawing import draw
from scheduling.web.layouts.drawing import bars_of
from scheduling.web.map import KIND_LABELS, NODE_STATES, map_of, marks_of_map
from topology.models import Node
from topology.reports.floor import node_plan, with_gpus
from topology.reports.links import link_table, survey_of
from topology.web.clusters import chosen_cluster

LOOK_EVERY = 15.0  # seconds


@require_safe
@signed_in
def cluster_map(request: HttpRequest) -> HttpResponse:
    """Every GPU of the cluster and what it does; of a large one every node, or one part of it."""
    cluster = chosen_cluster(request)
    part = {name: request.GET.get(name, "").replace("\0", "")[:80] for name in ("pool", "rack")}
    marks = marks_of_map(cluster, reader=request.user, **part)
    return polled(
        request,
        ("scheduling/cluster_map.html", "scheduling/partials/_map.html"),
        lambda: {
            "map": map_of(cluster, reader=request.user, **part),
            "part": part,
            "node_states": NODE_STATES,
            "kinds": KIND_LABELS,
        },
        tag=tag_of(request, cluster, part, marks),
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
