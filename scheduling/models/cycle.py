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
    # The codec's JSON, each compressed with zlib; a snapshot over the size limit is not kept.
    plan = models.BinaryField()
    snapshot = models.BinaryField(default=bytes)
    policy = models.BinaryField(default=bytes)

    class Meta:
        indexes = [models.Index(fields=["cluster", "-id"], name="cycle_newest")]

    def __str__(self) -> str:
        return f"{self.cluster_id} at {self.at:%H:%M:%S}"
