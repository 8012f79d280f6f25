from django.db import models


class ResourceFlavor(models.Model):
    """A class of nodes that quota is counted in (H100-SXM, L40S …). It belongs to one cluster."""

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="flavors"
    )
    name = models.SlugField(max_length=63)
    gpu_model = models.CharField(max_length=80)  # as the nodes report it
    gpu_memory_mib = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="flavor_once"),
            models.UniqueConstraint(fields=["cluster", "gpu_model"], name="flavor_per_gpu_model"),
        ]

    def __str__(self) -> str:
        return self.name
