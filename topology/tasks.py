"""Doors for the broker. Each may run twice, at once or never."""

import logging

from celery import shared_task
from django.utils import timezone

from portal.core.errors import ClusterAway
from topology.models import Cluster
from topology.services.check import check_cluster, note_check
from topology.services.reach import gateway_to

logger = logging.getLogger(__name__)


@shared_task(name="topology.check_cluster", ignore_result=True)
def check_one_cluster(*, cluster_id: int) -> None:
    """Ask one cluster what it has and lets us do."""
    cluster = Cluster.objects.get(pk=cluster_id)
    at = timezone.now()
    try:
        check_cluster(cluster, gateway_to(cluster).wire, at=at)
    except ClusterAway as away:  # the kubeconfig leads nowhere
        note_check(cluster, {"trouble": str(away)[:500]}, at=at)


@shared_task(name="topology.check_clusters", ignore_result=True)
def check_clusters() -> None:
    """The beat: software comes and goes in a cluster, and so do rights."""
    for cluster_id in Cluster.objects.order_by("pk").values_list("pk", flat=True):
        check_one_cluster(cluster_id=cluster_id)
