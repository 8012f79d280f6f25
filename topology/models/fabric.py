from django.db import models


class Fabric(models.Model):
    """Nodes that reach each other over one InfiniBand or RoCE network."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="fabrics"
    )
    name = models.CharField(max_length=63)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="fabric_once"),
        ]

    def __str__(self) -> str:
        return self.name


class Rack(models.Model):
    """Nodes behind one leaf switch."""

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="racks")
    name = models.CharField(max_length=63)
    fabric = models.ForeignKey(
        Fabric, null=True, blank=True, on_delete=models.SET_NULL, related_name="racks"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="rack_once"),
        ]

    def __str__(self) -> str:
        return self.name


class NvlinkDomain(models.Model):
    """Nodes whose GPUs are joined by NVLink across chassis."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="nvlink_domains"
    )
    name = models.CharField(max_length=63)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="nvlink_domain_once"),
        ]

    def __str__(self) -> str:
        return self.name
