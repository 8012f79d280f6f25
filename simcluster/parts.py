"""Subresources of pods that are verbs of their own: binding and eviction."""

from simcluster import errors, removal
from simcluster.objects import Obj, Stored, gates_of, is_deleting, name_of, node_of
from simcluster.removal import Removal
from simcluster.resources import PODS
from simcluster.scheduler import bind
from simcluster.world import World


def bind_pod(world: World, pod: Stored, body: Obj, *, dry_run: bool) -> None:
    """Bind a pod as the scheduler does, without its checks; 409 for a gated or a bound one."""
    name, node = name_of(pod), (body.get("target") or {}).get("name")
    if not node:
        cause = errors.required_field("target.name")
        raise errors.invalid(PODS, name, causes=[cause])
    if is_deleting(pod):
        raise errors.conflict(PODS, name, why=f"pod {name} is being deleted, cannot be assigned")
    if node_of(pod):
        why = f"pod {name} is already assigned to node {node_of(pod)!r}"
        raise errors.conflict(PODS, name, why=why)
    if gates_of(pod):
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise errors.conflict(PODS, name, why=why)
    if not dry_run:
        bind(world, pod, node)


def evict_pod(world: World, pod: Stored, body: Obj) -> None:
    """Delete a pod as the eviction API does, saying so on it first."""
    options = body.get("deleteOptions") or {}
    how = Removal(grace_seconds=options.get("gracePeriodSeconds"))
    removal.begin(world, PODS, pod, how=how)
