from django.db import models
from django.utils.translation import gettext_lazy as _

from scheduling.querysets import OfJobQuerySet


class Preemption(models.Model):
    """One stop of a running job to make room for another: what allowed it, and what it cost.

    Times are the cluster's clock. `gone_at` and what was lost are known once its members are gone.
    """

    class Why(models.TextChoices):
        RECLAIM = "reclaim", _("on quota that its tenant had borrowed")
        PRIORITY = "priority", _("of lower priority")
        STANDBY = "standby", _("standby")

    job = models.ForeignKey("scheduling.Job", on_delete=models.CASCADE, related_name="preemptions")
    attempt = models.PositiveIntegerField()
    claimant = models.ForeignKey(
        "scheduling.Job", null=True, on_delete=models.SET_NULL, related_name="preempted_others"
    )
    why = models.CharField(max_length=8, choices=Why.choices)
    decided_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True, blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True)  # that it resumes from
    lost_gpu_seconds = models.PositiveBigIntegerField(null=True, blank=True)

    objects = OfJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt"], name="preemption_once_per_attempt"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.attempt} for {self.claimant_id}"
