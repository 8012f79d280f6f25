from django.db import models
from django.db.models import F, Q


class CapacityBlock(models.Model):
    """Whole GPUs promised to people for a window (the cluster's clock): a course, a deadline.

    Jobs of `tenant` may use them meanwhile; without one nobody's may.
    """

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="blocks")
    name = models.SlugField(max_length=60)
    tenant = models.ForeignKey(
        "tenants.Tenant", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="block_name_once"),
            models.CheckConstraint(
                condition=Q(until_at__gt=F("from_at")), name="block_ends_after_it_begins"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class BlockPart(models.Model):
    """What a block has of one node."""

    block = models.ForeignKey(CapacityBlock, on_delete=models.CASCADE, related_name="parts")
    node = models.ForeignKey("topology.Node", on_delete=models.CASCADE, related_name="+")
    gpus = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["block", "node"], name="block_part_once_per_node"),
            models.CheckConstraint(condition=Q(gpus__gte=1), name="block_part_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.gpus} GPUs of {self.node_id} for {self.block_id}"
