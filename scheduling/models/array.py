from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from tenants.querysets import TenantScopedQuerySet


class JobArray(models.Model):
    """One job so many times: its tasks are jobs of their own, each told its number."""

    public_id = models.CharField(max_length=12, unique=True)  # a-7k3m2q: the only name outside
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="arrays")
    cluster = models.ForeignKey("topology.Cluster", on_delete=models.PROTECT, related_name="arrays")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="arrays"
    )
    name = models.CharField(max_length=80)
    size = models.PositiveIntegerField()
    at_once = models.PositiveIntegerField(null=True, blank=True)  # so many run; None for all
    external_id = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    submitted_at = models.DateTimeField()  # cluster clock

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(size__gte=1), name="array_has_tasks"),
            models.CheckConstraint(
                condition=Q(at_once__isnull=True) | Q(at_once__gte=1, at_once__lte=F("size")),
                name="array_at_once_within_size",
            ),
            models.UniqueConstraint(
                fields=["cluster", "external_id"],
                condition=~Q(external_id=""),
                name="array_external_id_once",
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-submitted_at", "-id"], name="array_of_tenant")]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"
