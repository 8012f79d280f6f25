"""Which job holds which GPU, told to each reader as far as it is their business."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.models import PlacementGpu
from scheduling.querysets import PlacementGpuQuerySet
from scheduling.states import JobState
from tenants.models import Tenant, User
from topology.models import Cluster, Gpu, Node
from topology.reports.floor import state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a GPU. Of a job that is not the reader's business only the tenant is named."""

    tenant: str
    job_id: str = ""
    job_name: str = ""
    job_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """kind: free, mine, moving (mine, being started or stopped), other, closed, fault, unknown."""

    gpu: Gpu
    kind: str
    holder: Holder | None


KINDS = ("free", "mine", "moving", "other", "closed", "fault", "unknown")


def holders_in(cluster: Cluster, *, reader: User) -> dict[int, Holder]:
    """The holder of each GPU of `cluster` that is held, by its key. Two queries.

    Of several that hold parts of a GPU it is one whose job is the reader's business, if any.
    """
    return _holders(PlacementGpu.objects.filter(gpu__node__cluster=cluster), reader)


def holders_on(node: Node, *, reader: User) -> dict[int, Holder]:
    """The holder of each GPU of `node` that is held, by its key. Two queries."""
    return _holders(PlacementGpu.objects.filter(gpu__node=node), reader)


def use_of(gpu: Gpu, node: Node, holders: dict[int, Holder]) -> GpuUse:
    """What is to be said of `gpu` on `node`: a fault first, then its holder, then its node."""
    holder = holders.get(gpu.pk)
    return GpuUse(gpu=gpu, kind=_kind(gpu, node, holder), holder=holder)


def count_kinds(uses: Iterable[GpuUse]) -> dict[str, int]:
    """How many GPUs are of each kind, in the order of the legend, zeros included."""
    counts = dict.fromkeys(KINDS, 0)
    for use in uses:
        counts[use.kind] += 1
    return counts


def _holders(held: PlacementGpuQuerySet, reader: User) -> dict[int, Holder]:
    visible = set(Tenant.objects.visible_to(reader).values_list("pk", flat=True))
    rows = held.active().values_list(
        "gpu_id",
        "placement__job__tenant_id",
        "placement__job__tenant__name",
        "placement__job__public_id",
        "placement__job__name",
        "placement__job__state",
    )
    found: dict[int, Holder] = {}
    for gpu, tenant, holder, job_id, name, state in rows:
        if tenant in visible:
            found[gpu] = Holder(tenant=holder, job_id=job_id, job_name=name, job_state=state)
        else:
            found.setdefault(gpu, Holder(tenant=holder))
    return found


def _kind(gpu: Gpu, node: Node, holder: Holder | None) -> str:
    if not gpu.is_healthy:
        return "fault"
    if not node.is_ready or node.gone_at is not None:
        return "unknown"
    if holder is None:
        return "free" if state_of(node) == "open" else "closed"
    if not holder.job_id:
        return "other"
    return "mine" if holder.job_state == JobState.RUNNING else "moving"
