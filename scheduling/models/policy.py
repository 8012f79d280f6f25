from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class Policy(models.Model):
    """The knobs of a cluster's cycles, one row per change; the highest number is in force.

    `values` are all fields of the engine's Policy, by name: an old row says what held then, even
    after a default has changed.
    """

    cluster = models.ForeignKey(
        "topology.Cluster", on_delete=models.CASCADE, related_name="policies"
    )
    number = models.PositiveIntegerField()
    values = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())  # wall clock

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(fields=["cluster", "number"], name="policy_number_once"),
        ]

    def __str__(self) -> str:
        return f"policy {self.number} of {self.cluster_id}"
