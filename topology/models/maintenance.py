from django.db import models
from django.db.models import F, Q


class MaintenanceWindow(models.Model):
    """Nodes that are needed for maintenance from one instant to another (the cluster's clock).

    No job is started there that would not end before; what runs is left alone.
    """

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="maintenance_windows"
    )
    nodes = models.ManyToManyField("topology.Node", related_name="maintenance_windows")
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(until_at__gt=F("from_at")), name="maintenance_ends_after_it_begins"
            ),
        ]

    def __str__(self) -> str:
        return f"maintenance of {self.cluster_id} from {self.from_at:%Y-%m-%d %H:%M}"
