from django.http import HttpRequest

from topology.models import Cluster

SESSION_KEY = "cluster"


def clusters_of(request: HttpRequest) -> list[Cluster]:
    """Every cluster, oldest first; read once per request."""
    if not hasattr(request, "muster_clusters"):
        request.muster_clusters = list(Cluster.objects.order_by("pk"))
    return request.muster_clusters


def chosen_cluster(request: HttpRequest) -> Cluster | None:
    """The cluster to show: the one asked for, or chosen before, or the first; None without any."""
    clusters = clusters_of(request)
    wanted = request.GET.get("cluster") or request.session.get(SESSION_KEY)
    found = [cluster for cluster in clusters if cluster.slug == wanted]
    return (found or clusters or [None])[0]
