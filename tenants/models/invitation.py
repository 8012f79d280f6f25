from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from tenants.models.membership import Role
from tenants.querysets import TenantScopedQuerySet


class Invitation(models.Model):
    """A mail address that somebody of a tenant asked to come in, with a role and caps.

    Its link is not kept: it is signed anew for each mail, with `sends` in it, so that only the last
    one opens. All times are the wall clock.
    """

    tenant = models.ForeignKey(
        "tenants.Tenant", on_delete=models.CASCADE, related_name="invitations"
    )
    email = models.EmailField()
    role = models.PositiveSmallIntegerField(choices=Role.choices, default=Role.RESEARCHER)
    gpus_at_once = models.PositiveIntegerField(null=True, blank=True)
    job_hours = models.PositiveIntegerField(null=True, blank=True)
    highest_priority = models.ForeignKey(
        "tenants.PriorityClass", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    sends = models.PositiveSmallIntegerField(default=1)
    asked_at = models.DateTimeField()  # for the last mail
    expires_at = models.DateTimeField()
    mailed_at = models.DateTimeField(null=True, blank=True)  # the last mail; null: not yet
    used_at = models.DateTimeField(null=True, blank=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = TenantScopedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "tenant",
                Lower("email"),
                condition=Q(used_at__isnull=True, withdrawn_at__isnull=True),
                name="invitation_once_while_open",
            ),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_known"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=models.F("asked_at")),
                name="invitation_ends_after_it_begins",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-asked_at"], name="invitation_of_tenant"),
            models.Index(
                fields=["id"],
                condition=Q(
                    mailed_at__isnull=True, used_at__isnull=True, withdrawn_at__isnull=True
                ),
                name="invitation_to_mail",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id}: {self.email}"
