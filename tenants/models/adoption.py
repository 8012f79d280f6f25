from django.db import models
from django.db.models import Q

from tenants.querysets import TenantScopedQuerySet


class AdoptedNamespace(models.Model):
    """A namespace that others made and that is, or was, a tenant's. Instants: wall clock.

    taken_at: when the cluster was told. given_back_at: when an operator wished it to be nobody's
    again; returned_at: when the cluster was told that. refusal: why it was not, in its words.
    """

    cluster = models.ForeignKey("topology.Cluster", on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.CASCADE, related_name="adopted_namespaces"
    )
    asked_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True)
    given_back_at = models.DateTimeField(null=True, blank=True)
    returned_at = models.DateTimeField(null=True, blank=True)
    refusal = models.CharField(max_length=500, blank=True)

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "name"],
                condition=Q(returned_at__isnull=True),
                name="namespace_has_one_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} in {self.cluster_id}"
