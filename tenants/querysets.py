from typing import Any, Self

from django.db import models


class TenantScopedQuerySet(models.QuerySet):
    """For every model that hangs off a tenant. Doors (web, api) start from `visible_to`."""

    tenant_path = "tenant"

    def visible_to(self, user: Any, at_least: int = 0) -> Self:
        """Rows of tenants where `user` holds a role of `at_least`; an operator sees them all.

        A subquery rather than a join, so a row never comes twice.
        """
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_operator:
            return self
        tenant_ids = user.memberships.filter(role__gte=at_least).values("tenant_id")
        return self.filter(**{f"{self.tenant_path}__in": tenant_ids})


class TenantQuerySet(TenantScopedQuerySet):
    tenant_path = "pk"

    def active(self) -> Self:
        return self.filter(archived_at__isnull=True)
