from django.db import models
from django.db.models import Q

from tenants.querysets import TenantScopedQuerySet


class Quota(models.Model):
    """What a tenant (or a cohort as a whole) may use of one flavor, in GPUs.

    Pages say guaranteed (nominal) and ceiling (nominal + borrowing limit). A limit that is not
    said (null) is no limit.
    """

    tenant = models.ForeignKey(
        "tenants.Tenant", null=True, blank=True, on_delete=models.CASCADE, related_name="quotas"
    )
    cohort = models.ForeignKey(
        "tenants.Cohort", null=True, blank=True, on_delete=models.CASCADE, related_name="quotas"
    )
    flavor = models.ForeignKey(
        "topology.ResourceFlavor", on_delete=models.PROTECT, related_name="quotas"
    )
    nominal = models.PositiveIntegerField()
    borrowing_limit = models.PositiveIntegerField(null=True, blank=True)
    lending_limit = models.PositiveIntegerField(null=True, blank=True)

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "flavor"], name="quota_once_per_tenant"),
            models.UniqueConstraint(fields=["cohort", "flavor"], name="quota_once_per_cohort"),
            models.CheckConstraint(
                condition=Q(tenant__isnull=False, cohort__isnull=True)
                | Q(tenant__isnull=True, cohort__isnull=False),
                name="quota_of_a_tenant_or_a_cohort",
            ),
            models.CheckConstraint(
                condition=Q(lending_limit__isnull=True) | Q(lending_limit__lte=models.F("nominal")),
                name="quota_lends_what_it_has",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant or self.cohort}: {self.nominal} {self.flavor}"
