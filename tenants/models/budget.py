from django.db import models
from django.db.models import F, Q

from tenants.querysets import TenantScopedQuerySet


class Budget(models.Model):
    """GPU-hours that a tenant may use in one cluster from one instant to another (its clock).

    A job starts only if the most that it may use still fits. Standby jobs are not counted.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="budgets")
    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="+")
    gpu_hours = models.PositiveIntegerField()
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "cluster", "from_at"], name="budget_once_from_an_instant"
            ),
            models.CheckConstraint(
                condition=Q(until_at__gt=F("from_at")), name="budget_ends_after_it_begins"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant}: {self.gpu_hours} GPU-hours from {self.from_at:%Y-%m-%d}"
