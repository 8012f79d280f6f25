from django.db import models
from django.db.models import Q

from scheduling.querysets import OfJobQuerySet


class Reservation(models.Model):
    """Capacity promised to a waiting job from a time on, as the last cycle planned it."""

    job = models.OneToOneField(
        "scheduling.Job", on_delete=models.CASCADE, related_name="reservation"
    )
    start_at = models.DateTimeField()  # cluster clock
    amounts = models.JSONField(default=list)  # [[node name, members, GPUs], …]
    decided_at = models.DateTimeField()  # cluster clock; when it was first promised so

    objects = OfJobQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.job_id} from {self.start_at:%H:%M:%S}"


class DeviceHold(models.Model):
    """A device kept for a waiting job while others give theirs back."""

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="device_holds")
    group_index = models.PositiveSmallIntegerField()
    rank = models.PositiveIntegerField()
    node = models.ForeignKey("topology.Node", on_delete=models.CASCADE, related_name="+")
    gpu = models.ForeignKey(
        "topology.Gpu", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    instance = models.ForeignKey(
        "topology.MigInstance", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    share = models.PositiveSmallIntegerField(null=True, blank=True)
    milli = models.PositiveSmallIntegerField(null=True, blank=True)  # of a GPU given by amounts
    until = models.DateTimeField()  # cluster clock

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"],
                condition=Q(instance__isnull=True, share__isnull=True, milli__isnull=True),
                name="gpu_held_for_one_job",
            ),
            models.UniqueConstraint(fields=["instance"], name="instance_held_for_one_job"),
            models.UniqueConstraint(fields=["gpu", "share"], name="share_held_for_one_job"),
        ]

    def __str__(self) -> str:
        return f"{self.gpu} for {self.job_id}"
