"""The list of layouts: what they are, what drifted, what is under way, what the planner wants."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.core.web import signed_in
from scheduling.reports.layouts import (
    drift_in,
    kinds_in,
    layout_rows,
    rollout_rows,
    wishes_of_the_planner,
)
from tenants.access import require_operator
from topology.web.clusters import chosen_cluster


@require_safe
@signed_in
def layouts(request: HttpRequest) -> HttpResponse:
    require_operator(request.user)
    cluster = chosen_cluster(request)
    if cluster is None:
        return render(request, "scheduling/no_cluster.html")
    kinds = kinds_in(cluster)
    shown = {
        "of": cluster,
        "kinds": kinds,
        "rows": layout_rows(cluster, kinds),
        "drift": drift_in(cluster),
        "rollouts": rollout_rows(cluster),
        "wishes": wishes_of_the_planner(cluster),
    }
    return render(request, "scheduling/layouts.html", shown)
