from django.db import models

from tenants.querysets import TenantScopedQuerySet


class Tenancy(models.Model):
    """What a cluster holds for a tenant beside its jobs, as last looked at. Instants: wall clock.

    drift: what was not as it should be then and stayed so, each as "Kind name: fields".
    mended: what we last put right, and when.
    refusal: the cluster's words for not letting us look or put it right; empty when it did.
    unguarded: names of admission policies that the cluster lacked.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="tenancies")
    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="+")
    checked_at = models.DateTimeField()
    drift = models.JSONField(default=list, blank=True)
    mended = models.JSONField(default=list, blank=True)
    mended_at = models.DateTimeField(null=True, blank=True)
    refusal = models.CharField(max_length=500, blank=True)
    unguarded = models.JSONField(default=list, blank=True)

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "cluster"], name="tenancy_once_per_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} in {self.cluster}"
