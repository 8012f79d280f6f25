"""Which parts of GPUs clusters have to hand out."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from topology.catalog.boards import boards
from topology.catalog.fitting import instance_memory_mib
from topology.catalog.gpus import find_model
from topology.models import SHARED, Cluster, Gpu, GpuMode, MigInstance, ResourceFlavor


@dataclass(frozen=True, slots=True)
class Device:
    """What a member may have one of: a whole GPU of a flavor, or a slice of it, by `profile`."""

    flavor: ResourceFlavor
    profile: str
    memory_mib: int


def devices_of(clusters: Sequence[Cluster]) -> tuple[Device, ...]:
    """The GPUs and slices of present nodes whose memory is known, least memory first. Two queries.

    Shares are not among them: nothing keeps a part of the memory for them.
    """
    flavors = ResourceFlavor.objects.filter(
        cluster__in=clusters, nodes__gone_at=None, nodes__isnull=False
    )
    found = [
        device
        for flavor in flavors.select_related("cluster").distinct()
        if (device := _whole(flavor))
    ]
    whole = {device.flavor.pk: device for device in found}
    pairs = _present(clusters).values_list("gpu__node__flavor", "profile").distinct()
    found += [
        device
        for flavor, profile in pairs
        if flavor in whole and (device := _slice(whole[flavor], profile))
    ]
    return tuple(sorted(found, key=lambda own: (own.memory_mib, own.flavor.name, own.profile)))


def _whole(flavor: ResourceFlavor) -> Device | None:
    model = find_model(flavor.gpu_model)
    memory = flavor.gpu_memory_mib or (model.memory_mib if model else None)
    return Device(flavor, "", memory) if memory else None


def _slice(whole: Device, profile: str) -> Device | None:
    model = find_model(whole.flavor.gpu_model)
    board = boards().get(model.key) if model else None
    known = board.profiles.get(profile) if board else None
    if model is None or board is None or known is None:
        return None
    return Device(whole.flavor, profile, instance_memory_mib(model, board, known))


def slice_profiles(clusters: Sequence[Cluster]) -> tuple[str, ...]:
    """Profiles of the MIG instances on present nodes, by name. One query."""
    return tuple(sorted(_present(clusters).values_list("profile", flat=True).distinct()))


def _present(clusters: Sequence[Cluster]) -> QuerySet[MigInstance]:
    return MigInstance.objects.filter(
        gpu__node__cluster__in=clusters,
        gpu__node__gone_at=None,
        gpu__mode=GpuMode.MIG,
        gone_at=None,
    )


def has_shares(clusters: Sequence[Cluster]) -> bool:
    """Whether any present node has GPUs that are handed out to several at a time. One query."""
    shared = Gpu.objects.filter(node__cluster__in=clusters, mode__in=SHARED, node__gone_at=None)
    return shared.exists()
