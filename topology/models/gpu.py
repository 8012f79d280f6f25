from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class GpuMode(models.TextChoices):
    """How a board is handed out: whole, cut into MIG instances, or shared by several at a time."""

    EXCLUSIVE = "exclusive", _("whole")
    MIG = "mig", _("MIG slices")
    TIME_SLICING = "time_slicing", _("time-slicing")
    MPS = "mps", _("MPS")
    HAMI = "hami", _("HAMi")


SHARED = frozenset({GpuMode.TIME_SLICING, GpuMode.MPS})


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
    mode = models.CharField(max_length=12, choices=GpuMode.choices, default=GpuMode.EXCLUSIVE)
    replicas = models.PositiveSmallIntegerField(default=1)  # how many it is handed out to at once

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], name="gpu_once_per_node"),
            models.UniqueConstraint(fields=["node", "uuid"], name="gpu_uuid_once_per_node"),
            models.CheckConstraint(condition=Q(numa__gte=-1), name="gpu_numa_known_or_minus_one"),
            models.CheckConstraint(condition=Q(mode__in=GpuMode.values), name="gpu_mode_known"),
            models.CheckConstraint(
                condition=Q(replicas=1) | Q(replicas__gte=2, mode__in=sorted(SHARED)),
                name="gpu_replicas_where_shared",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node}/{self.index}"


class MigInstance(models.Model):
    """A slice of a board, as last seen. One that is gone keeps its row, for history."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="instances")
    profile = models.CharField(max_length=20)  # 1g.10gb
    start = models.PositiveSmallIntegerField()  # of its placement, in memory slices
    gone_at = models.DateTimeField(null=True, blank=True)  # wall clock

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu", "start"],
                condition=Q(gone_at__isnull=True),
                name="mig_instance_once_per_start",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu}@{self.start} {self.profile}"
