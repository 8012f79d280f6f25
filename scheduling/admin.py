"""For looking only: what happens to a job goes through the services."""

from django.contrib import admin

from portal.core.backoffice import ReadOnlyAdmin
from scheduling.models import (
    CapacityBlock,
    Cycle,
    Job,
    JobEvent,
    LayoutRequest,
    Member,
    Placement,
    Preemption,
)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("public_id", "name", "tenant", "owner", "state", "reason", "submitted_at")
    list_filter = ("state", "cluster", "tenant")
    list_select_related = ("tenant", "owner")
    search_fields = ("public_id", "name", "external_id")
    ordering = ("-submitted_at", "-id")


@admin.register(JobEvent)
class JobEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "job", "from_state", "to_state", "reason", "actor")
    list_select_related = ("job", "actor")
    search_fields = ("job__public_id",)
    ordering = ("-id",)


@admin.register(Placement)
class PlacementAdmin(ReadOnlyAdmin):
    list_display = ("job", "node", "attempt", "member_count", "bound_at", "released_at")
    list_select_related = ("job", "node")
    search_fields = ("job__public_id", "node__name")
    ordering = ("-id",)


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    list_display = ("job", "rank", "attempt", "phase", "pod_name", "started_at", "ended_at")
    list_select_related = ("job",)
    search_fields = ("job__public_id", "pod_name")
    ordering = ("-id",)


@admin.register(Cycle)
class CycleAdmin(ReadOnlyAdmin):
    list_display = ("cluster", "at", "starts", "holds", "skipped", "seconds")
    list_select_related = ("cluster",)
    exclude = ("plan",)
    ordering = ("-id",)


@admin.register(Preemption)
class PreemptionAdmin(ReadOnlyAdmin):
    list_display = ("decided_at", "job", "claimant", "why", "gone_at", "lost_gpu_seconds")
    list_select_related = ("job", "claimant")
    search_fields = ("job__public_id",)
    ordering = ("-id",)


@admin.register(CapacityBlock)
class CapacityBlockAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster", "tenant", "from_at", "until_at")
    list_select_related = ("cluster", "tenant")
    ordering = ("-from_at",)


@admin.register(LayoutRequest)
class LayoutRequestAdmin(ReadOnlyAdmin):
    list_display = ("asked_at", "gpu", "layout", "job", "closed_at")
    list_select_related = ("gpu", "job")
    ordering = ("-id",)
