"""Making a node empty, as far as its change needs it: jobs wait again, others' pods are evicted."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet

from scheduling.models import Job, Placement
from scheduling.services.lifecycle import stop
from scheduling.states import JobState
from topology.kube.layout_doors import LayoutDoors
from topology.layouts.preview import preview_node
from topology.layouts.wish import setup_of
from topology.models import Node, NodeChange
from topology.services.layouts import setup_before, wish_of


def must_be_empty(change: NodeChange) -> Collection[int]:
    """The GPUs of the node, by index, that nobody may be using while it changes.

    On the way back it is not known how far the change had come: then all of them, if any.
    """
    wish = wish_of(change.rollout.version)
    models = [wish.model] * len(wish.cuts)
    preview = preview_node(models, setup_before(change), setup_of(wish))
    if change.is_backward and preview.must_end:
        return range(len(models))
    return preview.must_end


def placements_on(node: Node, gpus: Collection[int]) -> QuerySet[Placement]:
    """Placements that hold any of these GPUs of `node`."""
    held = Placement.objects.active().filter(
        node=node, devices__gpu__index__in=list(gpus), devices__released_at=None
    )
    return held.distinct()


def is_empty(change: NodeChange, doors: LayoutDoors) -> bool:
    """Whether nobody is left who would be in the way of the change."""
    gpus = must_be_empty(change)
    if not gpus:
        return True
    return not placements_on(change.node, gpus).exists() and not doors.pods_on(change.node.name)


def drain(change: NodeChange, doors: LayoutDoors, *, at: datetime) -> None:
    """Have those end who are in the way, once the time that they were given is over.

    Jobs save and wait again as if they made room for another; pods of others are evicted.
    at: cluster clock.
    """
    patience = change.rollout.evict_after_seconds
    if change.is_backward:
        patience = patience or 0
    if patience is None or at < change.since + timedelta(seconds=patience):
        return
    placements = placements_on(change.node, must_be_empty(change))
    for job in Job.objects.displaceable().filter(placements__in=placements).distinct():
        stop(job, towards=JobState.QUEUED, at=at, reason=f"{change.node} is cut or shared anew")
    for pod in doors.pods_on(change.node.name):
        if not pod.job and not pod.stopping:
            doors.evict(pod)
