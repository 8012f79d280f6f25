from django.db import models
from django.db.models.functions import Now


class Cycle(models.Model):
    """One cycle of one cluster that decided something: the audit of decisions."""

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="cycles")
    at = models.DateTimeField()  # cluster clock; the snapshot's instant
    recorded_at = models.DateTimeField(db_default=Now())  # wall clock
    starts = models.PositiveIntegerField()
    holds = models.PositiveIntegerField()
    skipped = models.PositiveIntegerField(default=0)  # decisions that met a changed job
    seconds = models.FloatField()  # wall; see to act
    digest = models.CharField(max_length=64)  # of the plan
    plan = models.BinaryField()  # zlib of the codec's JSON

    class Meta:
        indexes = [models.Index(fields=["cluster", "-id"], name="cycle_newest")]

    def __str__(self) -> str:
        return f"{self.cluster_id} at {self.at:%H:%M:%S}"
