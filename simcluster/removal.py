"""Taking objects away: grace, finalizers and what `DELETE` asks for; used by doors and loops."""

from dataclasses import dataclass

from simcluster.clock import rfc3339
from simcluster.objects import Obj, Stored, is_deleting, is_finished, node_of
from simcluster.resources import NAMESPACES, PODS, Resource
from simcluster.world import World

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """How an object is to go. Grace None is the pod's own, propagation "" the default."""

    grace_seconds: int | None = None
    propagation: str = ""


def begin(world: World, resource: Resource, obj: Stored, *, how: Removal) -> Stored | None:
    """Delete an object, as far as its grace and finalizers let it; None when it is gone at once."""
    finalizers = _finalizers(obj, how)
    grace = _grace(obj, how) if resource is PODS else 0
    held = bool(finalizers) or (resource is NAMESPACES and bool(obj["spec"].get("finalizers")))
    if grace == 0 and not held and resource is not PODS:
        world.store.remove(resource, obj)
        return None

    def mark(new: Obj) -> None:
        metadata = new["metadata"]
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        sooner = grace < metadata.get("deletionGracePeriodSeconds", grace + 1)
        if not is_deleting(new) or sooner:
            metadata["deletionTimestamp"] = rfc3339(world.clock.now() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["generation"] = metadata.get("generation", 1) + 1
        if resource is NAMESPACES:
            new["status"] = {**new.get("status", {}), "phase": "Terminating"}

    marked = world.store.change(resource, obj, mark)
    if grace == 0 and not held:  # even a pod that goes at once is first seen to be going
        world.store.remove(resource, marked)
        return None
    return marked


def finish_if_free(world: World, resource: Resource, obj: Stored) -> bool:
    """Remove an object whose deletion waits for nothing any more; True when it went."""
    metadata = obj["metadata"]
    if not is_deleting(obj) or metadata.get("finalizers"):
        return False
    if resource is PODS and metadata.get("deletionGracePeriodSeconds", 0) > 0:
        return False
    if resource is NAMESPACES and obj["spec"].get("finalizers"):
        return False
    world.store.remove(resource, obj)
    return True


def _finalizers(obj: Obj, how: Removal) -> list[str]:
    finalizers = [f for f in obj["metadata"].get("finalizers") or [] if f]
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(how.propagation)
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    return finalizers


def _grace(pod: Obj, how: Removal) -> int:
    """Seconds a pod is given. One that never ran, or has ended, needs none."""
    if not node_of(pod) or is_finished(pod):
        return 0
    if how.grace_seconds is not None:
        return max(0, how.grace_seconds)
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30))
