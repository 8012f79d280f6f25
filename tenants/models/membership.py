from django.db import models
from django.utils.translation import gettext_lazy as _

from tenants.querysets import TenantScopedQuerySet


class Role(models.IntegerChoices):
    VIEWER = 1, _("viewer")
    RESEARCHER = 2, _("researcher")
    LEAD = 3, _("lead")


class Membership(models.Model):
    """A person in a tenant, with a role and caps; a cap of None is none."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.PositiveSmallIntegerField(choices=Role.choices, default=Role.RESEARCHER)
    gpus_at_once = models.PositiveIntegerField(null=True, blank=True)  # in each cluster
    job_hours = models.PositiveIntegerField(null=True, blank=True)  # the longest run of a job
    highest_priority = models.ForeignKey(
        "tenants.PriorityClass", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role_known"
            ),
            models.CheckConstraint(
                condition=models.Q(gpus_at_once__isnull=True) | models.Q(gpus_at_once__gte=1),
                name="membership_gpus_positive",
            ),
            models.CheckConstraint(
                condition=models.Q(job_hours__isnull=True) | models.Q(job_hours__gte=1),
                name="membership_hours_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"
