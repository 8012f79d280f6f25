"""Which parts of GPUs clusters have to hand out."""

from collections.abc import Sequence

from topology.models import SHARED, Cluster, Gpu, GpuMode, MigInstance


def slice_profiles(clusters: Sequence[Cluster]) -> tuple[str, ...]:
    """Profiles of the MIG instances on present nodes, by name. One query."""
    present = MigInstance.objects.filter(
        gpu__node__cluster__in=clusters,
        gpu__node__gone_at=None,
        gpu__mode=GpuMode.MIG,
        gone_at=None,
    )
    return tuple(sorted(present.values_list("profile", flat=True).distinct()))


def has_shares(clusters: Sequence[Cluster]) -> bool:
    """Whether any present node has GPUs that are handed out to several at a time. One query."""
    shared = Gpu.objects.filter(node__cluster__in=clusters, mode__in=SHARED, node__gone_at=None)
    return shared.exists()
