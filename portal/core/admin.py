from django.contrib import admin

from portal.core.backoffice import ReadOnlyAdmin
from portal.core.models import AuditEvent


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "action", "object_kind", "object_id", "tenant_slug", "actor")
    list_filter = ("action", "object_kind")
    list_select_related = ("actor",)
    search_fields = ("object_id", "actor__username", "tenant_slug")
    ordering = ("-id",)
