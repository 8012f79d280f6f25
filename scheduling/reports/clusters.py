"""The connected clusters: what each is, whether it may be written to, and who changed that."""

from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.states import FINAL
from topology.models import Cluster, Node

MOST_CHANGES = 30


def cluster_rows() -> QuerySet[Cluster]:
    """Every cluster with `node_count`, `gpu_count` and `job_count` (that wait or run). 1 query."""
    present = Node.objects.present().filter(cluster=OuterRef("pk")).order_by().values("cluster")
    jobs = Job.objects.filter(cluster=OuterRef("pk")).exclude(state__in=sorted(FINAL))
    return (
        Cluster.objects.select_related("check_seen")
        .annotate(
            node_count=_number(present.annotate(number=Count("pk"))),
            gpu_count=_number(present.annotate(number=Sum("gpu_count"))),
            job_count=_number(jobs.order_by().values("cluster").annotate(number=Count("pk"))),
        )
        .order_by("slug")
    )


def cluster_changes(cluster: Cluster) -> list[AuditEvent]:
    """Who connected it and gave it which access, newest first. One query."""
    about = Q(object_kind="cluster", object_id=str(cluster.pk))
    events = AuditEvent.objects.filter(about).select_related("actor")
    return list(events.order_by("-at", "-pk")[:MOST_CHANGES])


def _number(rows: QuerySet) -> Coalesce:
    return Coalesce(Subquery(rows.values("number")), 0, output_field=IntegerField())
