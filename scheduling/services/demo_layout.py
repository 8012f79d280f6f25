"""The demo's node that is no longer as it was verified: something amiss for an operator to find."""

from datetime import datetime, timedelta

from django.db import transaction

from scheduling.services.layouts.rollouts import fits
from scheduling.services.layouts.versions import VersionRequest, make_layout
from tenants.models import User
from topology.models import Cluster, LayoutVersion, Node, NodeChange, Rollout, RolloutEvent
from topology.states import RolloutState, Step

NAME = "Halves for the course"
MODEL, GPUS = "A100-80GB", 8
HALVES = {"3g.40gb": 2}
AGO, TOOK = timedelta(days=9), timedelta(minutes=6)


@transaction.atomic
def tell_of_a_rollout(cluster: Cluster, *, by: User, at: datetime) -> None:
    """Let an ended rollout be known that cut one GPU of a node in halves, which nobody sees there.

    It is history, made up like the tenants': nothing reaches the cluster. Once; nothing happens
    where there is a layout already, or no node of that kind. at: cluster clock.
    """
    if cluster.layouts.exists():
        return
    request = VersionRequest(cuts=(HALVES, *[None] * (GPUS - 1)), note="Two students a GPU.")
    version = make_layout(request, cluster=cluster, name=NAME, gpu_model=MODEL, by=by)
    nodes = [node for node in cluster.nodes.present().order_by("-name") if fits(node, version)]
    if nodes:
        _remember(version, nodes[0], by=by, at=at - AGO)


def _remember(version: LayoutVersion, node: Node, *, by: User, at: datetime) -> None:
    """The rollout of `version` to `node`, begun at `at` and verified."""
    ended = at + TOOK
    rollout = Rollout.objects.create(
        cluster=node.cluster,
        version=version,
        state=RolloutState.DONE,
        begun_by=by,
        begun_at=at,
        ended_at=ended,
    )
    change = NodeChange.objects.create(
        rollout=rollout, node=node, wave=1, step=Step.VERIFIED, is_claimed=False, since=ended
    )
    RolloutEvent.objects.create(rollout=rollout, became=RolloutState.RUNNING, actor=by, at=at)
    RolloutEvent.objects.create(rollout=rollout, change=change, became=Step.VERIFIED, at=ended)
    RolloutEvent.objects.create(
        rollout=rollout, was=RolloutState.RUNNING, became=RolloutState.DONE, at=ended
    )
