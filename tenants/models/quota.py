from django.db import models
from django.db.models import Q

from tenants.querysets import TenantScopedQuerySet


class Quota(models.Model):
    """What a tenant (or a cohort as a whole) may use of one flavor, in GPUs.

    Pages say guaranteed (nominal) and ceiling (nominal + borrowing limit). A limit that is not
    said (null) is no limit.

    `granted` and `granted_borrowing` are the parts of nominal and borrowing_limit that come from
    grants in force; services.grants keeps them, and the rest is what an operator has set.
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
    granted = models.PositiveIntegerField(default=0)
    granted_borrowing = models.PositiveIntegerField(default=0)
    is_of_grants = models.BooleanField(default=False)  # made by the first, goes with the last

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
            models.CheckConstraint(
                condition=Q(granted__lte=models.F("nominal")), name="quota_includes_its_grants"
            ),
            models.CheckConstraint(
                condition=Q(borrowing_limit__isnull=True)
                | Q(granted_borrowing__lte=models.F("borrowing_limit")),
                name="quota_borrows_what_its_grants_say",
            ),
            models.CheckConstraint(
                condition=Q(tenant__isnull=False) | Q(granted=0, granted_borrowing=0),
                name="quota_granted_to_tenants",
            ),
            models.CheckConstraint(
                condition=Q(is_of_grants=False)
                | Q(nominal=models.F("granted"), borrowing_limit=models.F("granted_borrowing")),
                name="quota_of_grants_is_all_granted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant or self.cohort}: {self.nominal} {self.flavor}"
