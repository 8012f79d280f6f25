"""Which waiting jobs would find places on an empty cluster, as it is and as it would be."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.models import Job, JobGroup
from topology.layouts.preview import NodeSetup
from topology.models import SHARED, Cluster, GpuMode, Node

MOST_JOBS = 500
_WHOLE, _SHARE = "whole", "share"  # what else there is bears the name of a MIG profile


@dataclass(frozen=True, slots=True)
class Home:
    """What a node has. memory_mib: of each GPU. devices: by kind, how many."""

    flavor_id: int | None
    memory_mib: int
    devices: Mapping[str, int]


def homes_won_and_lost(
    cluster: Cluster, after: Mapping[int, NodeSetup]
) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Waiting jobs that gain a home, and those that lose theirs; the first MOST_JOBS are tried.

    after: by key, the nodes that change and what they become.
    """
    now, then = [], []
    for node in cluster.nodes.present().prefetch_related("gpus__instances"):
        gpus = [gpu for gpu in node.gpus.all() if gpu.is_healthy]
        memory = min((gpu.memory_mib or 0 for gpu in gpus), default=0)
        seen = Home(node.flavor_id, memory, _seen(node))
        now.append(seen)
        becomes = after.get(node.pk)
        then.append(
            Home(node.flavor_id, memory, _planned(becomes)) if becomes is not None else seen
        )
    waiting = Job.objects.filter(cluster=cluster).waiting().in_queue_order()
    jobs = waiting.select_related("tenant", "owner").prefetch_related("groups", "accepted")
    fits = [(job, _has_home(job, now), _has_home(job, then)) for job in jobs[:MOST_JOBS]]
    return (
        tuple(job for job, before, later in fits if later and not before),
        tuple(job for job, before, later in fits if before and not later),
    )


def _seen(node: Node) -> Counter[str]:
    found: Counter[str] = Counter()
    for gpu in node.gpus.all():
        if gpu.mode == GpuMode.MIG:
            found.update(own.profile for own in gpu.instances.all() if own.gone_at is None)
        elif gpu.is_healthy:
            found[_SHARE if gpu.mode in SHARED else _WHOLE] += gpu.replicas
    return found


def _planned(setup: NodeSetup) -> Counter[str]:
    found: Counter[str] = Counter()
    sharing = setup.plugin.sharing
    shares = max((count for _name, count in sharing.replicas), default=1) if sharing else 1
    for layout in setup.layouts:
        if layout is None:
            found[_SHARE if sharing else _WHOLE] += shares
        else:
            found.update(own.profile for own in layout)
    return found


def _has_home(job: Job, homes: Sequence[Home]) -> bool:
    """Whether each group of the job finds places for its least members on the empty nodes."""
    accepted = {own.flavor_id for own in job.accepted.all()}
    own = [home for home in homes if not accepted or home.flavor_id in accepted]
    large = [home for home in own if home.memory_mib >= job.gpu_memory_mib]
    for group in job.groups.all():
        kind, each = _need(group)
        fitting = large if kind == _WHOLE else own
        places = sum(home.devices.get(kind, 0) // each for home in fitting) if each else None
        if places is not None and places < group.min_member:
            return False
    return True


def _need(group: JobGroup) -> tuple[str, int]:
    """What kind of device a member asks for, and how many."""
    if group.slices_per_member:
        return group.slice_profile, group.slices_per_member
    if group.shares_per_member:
        return _SHARE, group.shares_per_member
    return _WHOLE, group.gpus_per_member
