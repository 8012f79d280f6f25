from django.db import models
from django.db.models import Q

from tenants.querysets import TenantQuerySet


class Tenant(models.Model):
    """Who is billed and limited; owns jobs and quota, has memberships."""

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    cohort = models.ForeignKey(
        "tenants.Cohort", null=True, blank=True, on_delete=models.PROTECT, related_name="tenants"
    )
    weight = models.PositiveIntegerField(default=1)
    is_strict = models.BooleanField(default=False)  # nothing overtakes an earlier waiting job
    highest_priority = models.ForeignKey(
        "tenants.PriorityClass", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    may_reach_host = models.BooleanField(default=False)  # its pods: hostPath, privileged and so on
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = TenantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(weight__gte=1), name="tenant_weight_positive"),
            # Its namespace in a cluster is named after it.
            models.CheckConstraint(
                condition=Q(slug__regex=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"),
                name="tenant_slug_names_a_namespace",
            ),
        ]

    def __str__(self) -> str:
        return self.name
