from django.db import models
from django.db.models import Q


class Gpu(models.Model):
    """One device of a node."""

    node = models.ForeignKey("topology.Node", on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=64)
    model = models.CharField(max_length=80)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    island = models.PositiveSmallIntegerField(default=0)  # GPUs of one island are joined by NVLink
    numa = models.SmallIntegerField(default=-1)  # -1: not known
    is_healthy = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], name="gpu_once_per_node"),
            models.UniqueConstraint(fields=["node", "uuid"], name="gpu_uuid_once_per_node"),
            models.CheckConstraint(condition=Q(numa__gte=-1), name="gpu_numa_known_or_minus_one"),
        ]

    def __str__(self) -> str:
        return f"{self.node}/{self.index}"
