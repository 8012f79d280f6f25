from django.db import models
from django.db.models import F, Q

from scheduling.engine.snapshot import PARTS_PER_GPU
from scheduling.querysets import PlacementGpuQuerySet, PlacementQuerySet


class Placement(models.Model):
    """Members of one job group on one node, from `bound_at` to `released_at` (cluster clock).

    This is the ledger: what a placement names is used from the instant its row exists. Members that
    come later or go earlier than the others of their gang have placements of their own.
    """

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="placements")
    group = models.ForeignKey(
        "scheduling.JobGroup", on_delete=models.CASCADE, related_name="placements"
    )
    node = models.ForeignKey("topology.Node", on_delete=models.PROTECT, related_name="placements")
    attempt = models.PositiveIntegerField()
    member_count = models.PositiveIntegerField()
    bound_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    objects = PlacementQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=F("bound_at")),
                name="placement_released_after_bound",
            ),
            models.CheckConstraint(condition=Q(member_count__gte=1), name="placement_not_empty"),
        ]
        indexes = [
            models.Index(
                fields=["node"], condition=Q(released_at__isnull=True), name="placement_active"
            ),
            models.Index(fields=["bound_at", "released_at"], name="placement_time"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} on {self.node}"


class PlacementGpu(models.Model):
    """A device that a placement holds, for the member of that rank; one holder at a time.

    It is a whole GPU, or one of the MIG instances or shares of it. A share of a GPU that is given
    out by amounts says how much it is.
    """

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="devices")
    gpu = models.ForeignKey("topology.Gpu", on_delete=models.PROTECT, related_name="held_by")
    member = models.ForeignKey(
        "scheduling.Member", on_delete=models.CASCADE, related_name="devices"
    )
    instance = models.ForeignKey(
        "topology.MigInstance",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="held_by",
    )
    share = models.PositiveSmallIntegerField(null=True, blank=True)  # number among its replicas
    milli = models.PositiveSmallIntegerField(null=True, blank=True)  # of a share by amounts
    mib = models.PositiveIntegerField(null=True, blank=True)  # of its memory, as `milli`
    parts = models.PositiveIntegerField(default=PARTS_PER_GPU)  # what it costs in quota
    released_at = models.DateTimeField(null=True, blank=True)  # with its placement's

    objects = PlacementGpuQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"],
                condition=Q(released_at__isnull=True, instance__isnull=True, share__isnull=True),
                name="gpu_in_one_active_placement",
            ),
            models.UniqueConstraint(
                fields=["instance"],
                condition=Q(released_at__isnull=True),
                name="instance_in_one_active_placement",
            ),
            models.UniqueConstraint(
                fields=["gpu", "share"],
                condition=Q(released_at__isnull=True),
                name="share_in_one_active_placement",
            ),
            models.CheckConstraint(
                condition=Q(instance__isnull=True) | Q(share__isnull=True),
                name="device_of_one_kind",
            ),
            models.CheckConstraint(
                condition=Q(milli__isnull=True, mib__isnull=True)
                | Q(milli__range=(1, 1000), mib__isnull=False, share__isnull=False),
                name="amounts_are_of_a_share",
            ),
        ]
        indexes = [models.Index(fields=["gpu", "-released_at"], name="gpu_last_released")]

    def __str__(self) -> str:
        return f"{self.label} for {self.placement}"

    @property
    def is_whole(self) -> bool:
        return self.instance is None and self.share is None

    @property
    def place(self) -> tuple[int, int]:
        """For ordering the devices of one node."""
        part = self.share if self.instance is None else self.instance.start
        return self.gpu.index, part or 0

    @property
    def label(self) -> str:
        """The device on its node: GPU 5, its instance 5@4, its share 5#2."""
        start = None if self.instance is None else self.instance.start
        return device_label(self.gpu.index, start, self.share)


def device_label(gpu: int, start: int | None, share: int | None) -> str:
    """`PlacementGpu.label` of the GPU of that index, its instance that starts there, its share."""
    if start is not None:
        return f"{gpu}@{start}"
    return str(gpu) + ("" if share is None else f"#{share}")
