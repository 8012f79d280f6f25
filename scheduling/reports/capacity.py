from dataclasses import dataclass

from django.db.models import Count, Q

from scheduling.models import PlacementGpu
from topology.models import Cluster, Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCapacity:
    """GPUs of one flavor. serving: healthy, on a node that is ready and takes jobs, or held.

    held: by anybody, whole or in part.
    """

    flavor: str
    installed: int
    serving: int
    held: int

    @property
    def free(self) -> int:
        return max(0, self.serving - self.held)


def capacity_of(cluster: Cluster) -> tuple[FlavorCapacity, ...]:
    """The GPUs of the present nodes of `cluster` by flavor, by name. Two queries."""
    on_open = Q(is_healthy=True, node__is_ready=True, node__is_cordoned=False)
    held_on = Q(node__is_ready=True, held_by__isnull=False, held_by__released_at__isnull=True)
    installed = (
        Gpu.objects.filter(node__cluster=cluster, node__gone_at__isnull=True)
        .values("node__flavor__name")
        .annotate(
            n=Count("pk", distinct=True),
            serving=Count("pk", filter=on_open | held_on, distinct=True),
        )
        .values_list("node__flavor__name", "n", "serving")
    )
    held = dict(
        PlacementGpu.objects.active()
        .filter(gpu__node__cluster=cluster, gpu__node__gone_at__isnull=True)
        .values("gpu__node__flavor__name")
        .annotate(n=Count("gpu", distinct=True))
        .values_list("gpu__node__flavor__name", "n")
    )
    rows = [
        FlavorCapacity(flavor=name or "", installed=n, serving=serving, held=held.get(name, 0))
        for name, n, serving in installed
    ]
    return tuple(sorted(rows, key=lambda row: row.flavor))
