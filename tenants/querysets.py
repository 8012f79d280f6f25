from typing import Any, Self

from django.db import models

from tenants.states import FINAL, FOR_OPERATORS, IN_FORCE, NEEDING_TENANTS, PROMISED


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


class QuotaRequestQuerySet(TenantScopedQuerySet):
    def open(self) -> Self:
        """Not ended: from the draft to the last day of grace."""
        return self.exclude(state__in=FINAL)

    def for_operators(self) -> Self:
        """An operator has to answer."""
        return self.filter(state__in=FOR_OPERATORS)

    def needing_tenants(self) -> Self:
        """The tenant has something to do: submit, answer, take an offer, renew."""
        return self.filter(state__in=NEEDING_TENANTS)

    def in_force(self) -> Self:
        return self.filter(state__in=IN_FORCE)

    def promised(self) -> Self:
        """Guaranteed on some day from now on."""
        return self.filter(state__in=PROMISED)


class NotificationQuerySet(models.QuerySet):
    def shown_to(self, user: Any) -> Self:
        """What is in the inbox of `user`, the newest first."""
        return self.filter(user=user, in_inbox=True).order_by("-pk")

    def unread(self) -> Self:
        return self.filter(in_inbox=True, read_at__isnull=True)

    def to_mail(self, at: Any) -> Self:
        """Due by `at`, and claimed by nobody."""
        return self.filter(mail_due_at__lte=at, mailed_at__isnull=True)


class AnnouncementQuerySet(models.QuerySet):
    def shown_at(self, at: Any) -> Self:
        """Begun and not over at `at`."""
        return self.filter(from_at__lte=at, until_at__gt=at)


class PriorityClassQuerySet(models.QuerySet):
    def offered(self) -> Self:
        """Not retired: new jobs may ask for it."""
        return self.filter(retired_at__isnull=True)


class OfRequestQuerySet(TenantScopedQuerySet):
    tenant_path = "request__tenant"
