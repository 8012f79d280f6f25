from django.contrib import admin

from portal.core.backoffice import AuditedAdmin, ReadOnlyAdmin
from topology.models import Cluster, Fabric, Gpu, Node, NvlinkDomain, Rack, ResourceFlavor


@admin.register(Cluster)
class ClusterAdmin(AuditedAdmin):
    """How a cluster is reached. What was seen of it is for looking at."""

    list_display = ("slug", "name", "is_simulated", "is_writable", "seen_at", "planned_at")
    readonly_fields = (
        "is_simulated",
        "clock_at",
        "clock_wall_at",
        "clock_speed",
        "seen_at",
        "cycle_asked",
        "cycle_answered",
        "planned_at",
    )
    ordering = ("slug",)


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster", "flavor", "gpu_count", "is_ready", "is_cordoned", "gone_at")
    list_filter = ("cluster", "flavor", "is_ready", "is_cordoned")
    list_select_related = ("cluster", "flavor")
    search_fields = ("name",)
    ordering = ("name",)


@admin.register(Gpu)
class GpuAdmin(ReadOnlyAdmin):
    list_display = ("uuid", "node", "index", "model", "island", "mode", "is_healthy")
    list_filter = ("model", "mode", "is_healthy")
    list_select_related = ("node",)
    search_fields = ("uuid", "node__name")
    ordering = ("node__name", "index")


@admin.register(ResourceFlavor)
class FlavorAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster", "gpu_model", "gpu_memory_mib")
    list_select_related = ("cluster",)
    ordering = ("name",)


@admin.register(Fabric, Rack, NvlinkDomain)
class DomainAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster")
    list_select_related = ("cluster",)
    ordering = ("name",)
