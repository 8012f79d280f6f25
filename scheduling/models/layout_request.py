from django.db import models
from django.db.models import Q


class LayoutRequest(models.Model):
    """A GPU that should be cut anew for a waiting job: asked by a cycle, done by an operator."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="layout_requests"
    )
    gpu = models.ForeignKey("topology.Gpu", on_delete=models.CASCADE, related_name="+")
    layout = models.JSONField()  # [[profile, placement start], …]
    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()  # cluster clock
    closed_at = models.DateTimeField(null=True, blank=True)  # cluster clock; no longer wanted

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"], condition=Q(closed_at__isnull=True), name="layout_request_once_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.layout} on {self.gpu_id} for {self.job_id}"
