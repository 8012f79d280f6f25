from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.core import audit
from portal.core.backoffice import AuditedAdmin, ReadOnlyAdmin
from tenants.models import (
    ApiToken,
    Cohort,
    Membership,
    PriorityClass,
    Quota,
    QuotaRequest,
    Role,
    StarterRule,
    Tenant,
    User,
)
from tenants.services.cohorts import set_cohort_quota
from tenants.services.membership import add_member, remove_member, set_role
from tenants.services.quota import QuotaAmounts, set_quota
from tenants.services.tokens import revoke_token

admin.site.unregister(Group)  # roles live on memberships


@admin.register(User)
class PersonAdmin(AuditedAdmin, UserAdmin):
    list_display = ("username", "email", "is_operator", "is_active", "last_login")
    list_filter = ("is_operator", "is_active")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email", "language", "time_zone")}),
        (_("Rights"), {"fields": ("is_active", "is_operator", "is_staff", "is_superuser")}),
    )


@admin.register(Tenant)
class TenantAdmin(AuditedAdmin):
    list_display = ("slug", "name", "cohort", "weight", "archived_at")
    list_select_related = ("cohort",)
    search_fields = ("slug", "name")
    ordering = ("slug",)
    exclude = ("cohort",)  # moved by services.cohorts, which holds the tree

    @transaction.atomic
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        if change:  # whoever moved it since the form was read has the last word
            stored = Tenant.objects.select_for_update().get(pk=obj.pk)
            obj.cohort_id = stored.cohort_id
        super().save_model(request, obj, form, change)


@admin.register(Cohort)
class CohortAdmin(ReadOnlyAdmin):
    """Operators change the tree on its own page, which shows first what becomes of whom."""

    list_display = ("name", "parent", "weight")
    list_select_related = ("parent",)
    ordering = ("name",)


@admin.register(PriorityClass)
class PriorityClassAdmin(AuditedAdmin):
    list_display = ("name", "value", "is_default", "retired_at", "description")
    ordering = ("-value",)


@admin.register(Membership)
class MembershipAdmin(admin.ModelAdmin):
    """Through the services, which keep every tenant a lead."""

    list_display = ("tenant", "user", "role")
    list_filter = ("role",)
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__slug", "user__username")
    ordering = ("tenant__slug", "user__username")
    actions = None  # the bulk deletion would go past the service

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("tenant", "user")

    def save_model(
        self,
        request: HttpRequest,
        obj: Membership,
        form: ModelForm,
        change: bool,  # noqa: FBT001 - Django's signature
    ) -> None:
        if change:
            stored = Membership.objects.select_related("tenant", "user").get(pk=obj.pk)
            set_role(stored, Role(obj.role), by=request.user)
        else:
            added = add_member(obj.tenant, obj.user, role=Role(obj.role), by=request.user)
            obj.pk = added.pk

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        remove_member(obj, by=request.user)


@admin.register(Quota)
class QuotaAdmin(AuditedAdmin):
    """Through the services, which ask for a cycle."""

    list_display = ("tenant", "cohort", "flavor", "nominal", "borrowing_limit", "lending_limit")
    list_select_related = ("tenant", "cohort", "flavor")
    ordering = ("tenant__slug", "cohort__name", "flavor__name")
    exclude = ("granted", "granted_borrowing", "is_of_grants")  # services.grants keeps them

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("tenant", "cohort", "flavor")

    def save_model(
        self,
        request: HttpRequest,
        obj: Quota,
        form: ModelForm,
        change: bool,  # noqa: FBT001 - Django's signature
    ) -> None:
        asked = QuotaAmounts(obj.nominal, obj.borrowing_limit, obj.lending_limit)
        if obj.tenant is None:
            set_cohort_quota(asked, cohort=obj.cohort, flavor=obj.flavor, by=request.user)
            obj.pk = Quota.objects.get(cohort=obj.cohort, flavor=obj.flavor).pk
            return
        stored = set_quota(asked, tenant=obj.tenant, flavor=obj.flavor, by=request.user)
        obj.pk = stored.pk


@admin.register(QuotaRequest)
class QuotaRequestAdmin(ReadOnlyAdmin):
    list_display = ("public_id", "tenant", "state", "flavor", "gpus", "starts_on", "ends_on")
    list_filter = ("state", "purpose")
    list_select_related = ("tenant", "flavor")
    search_fields = ("tenant__slug", "justification")
    ordering = ("-id",)
    readonly_fields = ("plan_url",)  # its form field warns of a change in Django 6


@admin.register(StarterRule)
class StarterRuleAdmin(AuditedAdmin):
    """What of a flavor is approved without an operator. Nothing refers to a rule: it may go."""

    list_display = ("flavor", "most_gpus", "most_days", "most_gpu_hours")
    list_select_related = ("flavor",)
    ordering = ("flavor__name",)
    actions = None  # the bulk deletion would leave no audit line

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def delete_model(self, request: HttpRequest, obj: StarterRule) -> None:
        audit.record("delete_starter_rule", obj, by=request.user, before={"rule": str(obj)})
        obj.delete()


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ("prefix", "user", "name", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("prefix", "user__username", "name")
    exclude = ("digest",)
    ordering = ("-created_at",)
    actions = ("revoke",)

    @admin.action(description=_("Revoke the chosen tokens"))
    def revoke(self, request: HttpRequest, tokens: Any) -> None:
        for token in tokens:
            revoke_token(token, by=request.user, at=timezone.now())
