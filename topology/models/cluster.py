from django.db import models
from django.db.models import Q


class Cluster(models.Model):
    """One Kubernetes cluster that Muster places jobs on."""

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    # A path, not the file's text: secrets stay out of the database. Empty: we run inside it.
    kubeconfig_path = models.CharField(max_length=400, blank=True)
    is_simulated = models.BooleanField(default=False)
    is_writable = models.BooleanField(default=True)  # False: connected to look only
    # Whether gangs are held together by its own scheduler, too; as last found, or refused.
    has_pod_groups = models.BooleanField(default=False)

    # What a simulated cluster's clock showed, and when that was; see portal.core.clock.
    clock_at = models.DateTimeField(null=True, blank=True)
    clock_wall_at = models.DateTimeField(null=True, blank=True)
    clock_speed = models.FloatField(default=1.0)

    seen_at = models.DateTimeField(null=True, blank=True)  # wall clock; when it last answered
    cycle_asked = models.BigIntegerField(default=0)  # raised by whoever wants a cycle
    cycle_answered = models.BigIntegerField(default=0)  # what a snapshot saw of `cycle_asked`
    cycles_kept = models.PositiveIntegerField(default=2000)  # recorded ones, the newest
    snapshot_limit_kib = models.PositiveIntegerField(default=2048)  # of one, compressed
    planned_at = models.DateTimeField(null=True, blank=True)  # cluster clock; last cycle

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(clock_speed__gte=0), name="cluster_clock_forwards"),
        ]

    def __str__(self) -> str:
        return self.name
