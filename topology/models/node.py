from django.db import models
from django.db.models import Q

from topology.querysets import NodeQuerySet


class Node(models.Model):
    """A machine of a cluster, as last reported. One that went away keeps its row, for history."""

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    flavor = models.ForeignKey(
        "topology.ResourceFlavor",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="nodes",
    )
    rack = models.ForeignKey(
        "topology.Rack", null=True, blank=True, on_delete=models.SET_NULL, related_name="nodes"
    )
    fabric = models.ForeignKey(
        "topology.Fabric", null=True, blank=True, on_delete=models.SET_NULL, related_name="nodes"
    )
    nvlink_domain = models.ForeignKey(
        "topology.NvlinkDomain",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="nodes",
    )
    cpu_milli = models.BigIntegerField(default=0)  # allocatable
    memory_mib = models.BigIntegerField(default=0)  # allocatable
    gpu_count = models.PositiveSmallIntegerField(default=0)  # allocatable
    is_cordoned = models.BooleanField(default=False)
    is_ready = models.BooleanField(default=True)
    taints = models.JSONField(default=list, blank=True)  # [{key, value, effect}], foreign ones
    seen_version = models.BigIntegerField(default=0)  # resourceVersion of the last report used
    seen_at = models.DateTimeField(null=True, blank=True)  # wall clock
    gone_at = models.DateTimeField(null=True, blank=True)  # wall clock; no longer in the cluster

    objects = NodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_once"),
            models.CheckConstraint(
                condition=Q(cpu_milli__gte=0, memory_mib__gte=0), name="node_room_not_negative"
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "name"], condition=Q(gone_at__isnull=True), name="node_present"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        """Whether it may take new members now."""
        return self.is_ready and not self.is_cordoned and self.gone_at is None
