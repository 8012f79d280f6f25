from django.db import models
from django.utils.translation import gettext_lazy as _

from tenants.querysets import TenantScopedQuerySet


class Role(models.IntegerChoices):
    VIEWER = 1, _("viewer")
    RESEARCHER = 2, _("researcher")
    LEAD = 3, _("lead")


class Membership(models.Model):
    """A person in a tenant, with a role."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.PositiveSmallIntegerField(choices=Role.choices, default=Role.RESEARCHER)

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"
