"""What operators do with rollouts: begin one, stop it, go on, take it back."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Conflict, Refused
from portal.core.queueing import send_on_commit
from scheduling.services.layouts.moves import move_rollout
from tenants.access import require_operator
from tenants.models import User
from topology.layouts.wish import wish_problems
from topology.models import Cluster, LayoutVersion, Node, NodeChange, Rollout, RolloutEvent
from topology.services.layouts import board_of, wish_of
from topology.states import RolloutState, Step

MOST_NODES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """A version brought to nodes. wave: nodes in one. evict_after_seconds: None waits for ends."""

    version: LayoutVersion
    nodes: Collection[Node]
    wave: int = 1
    max_unavailable: int = 1
    evict_after_seconds: int | None = None
    node_limit_seconds: int = 900


@transaction.atomic
def begin_rollout(request: RolloutRequest, *, by: User, at: datetime) -> Rollout:
    """The rollout, under way. at: cluster clock.

    Raises NotAllowed for all but operators, Refused for what cannot be, Conflict for a node that
    another open rollout has in hand.
    """
    require_operator(by)
    layout = request.version.layout
    # Locked, so that nobody lets the cluster only be looked at between this look and the rollout.
    layout.cluster = Cluster.objects.select_for_update(no_key=True).get(pk=layout.cluster_id)
    check_request(request)
    rollout = Rollout.objects.create(
        cluster=layout.cluster,
        version=request.version,
        max_unavailable=request.max_unavailable,
        evict_after_seconds=request.evict_after_seconds,
        node_limit_seconds=request.node_limit_seconds,
        begun_by=by,
        begun_at=at,
    )
    nodes = sorted(request.nodes, key=lambda node: node.name)
    with _claiming():
        NodeChange.objects.bulk_create(
            NodeChange(rollout=rollout, node=node, wave=number // request.wave + 1, since=at)
            for number, node in enumerate(nodes)
        )
    RolloutEvent.objects.create(rollout=rollout, became=rollout.state, actor=by, at=at)
    names = [node.name for node in nodes]
    audit.record("begin_rollout", rollout, by=by, after={"layout": layout.slug, "nodes": names})
    send_on_commit("scheduling.advance_rollout", rollout_id=rollout.pk)
    return rollout


def check_request(request: RolloutRequest) -> None:
    """Raise Refused for a rollout that cannot be."""
    layout = request.version.layout
    if not layout.cluster.is_writable:
        raise Refused(_("This cluster is connected to look only: nothing can be changed there."))
    if not 1 <= len(request.nodes) <= MOST_NODES:
        raise Refused(_("Choose at least one node."), field="nodes")
    for number, field in ((request.wave, "wave"), (request.max_unavailable, "max_unavailable")):
        if not 1 <= number <= MOST_NODES:
            raise Refused(_("Between 1 and %d nodes at a time.") % MOST_NODES, field=field)
    if request.node_limit_seconds < 1:
        raise Refused(_("Give each node some time."), field="node_limit_seconds")
    wrong = [node.name for node in request.nodes if not fits(node, request.version)]
    if wrong:
        raise Refused(
            _("The layout is for nodes of %(count)s × %(model)s; these are others: %(names)s.")
            % {"count": layout.gpu_count, "model": layout.gpu_model, "names": ", ".join(wrong)},
            field="nodes",
        )
    problems = wish_problems(wish_of(request.version))
    if problems:
        raise Refused(problems[0].text(_))


def fits(node: Node, version: LayoutVersion) -> bool:
    """Whether a node is of the kind that the layout is for, and still there."""
    layout = version.layout
    board = board_of(node)
    return (
        node.cluster_id == layout.cluster_id
        and node.gone_at is None
        and board is not None
        and board.key == layout.gpu_model
        and len(node.gpus.all()) == layout.gpu_count
    )


@contextmanager
def _claiming() -> Iterator[None]:
    """Raise Conflict for a node that another open rollout has in hand."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if "node_in_one_open_rollout" not in str(error):
            raise
        raise Conflict(
            _("Another rollout has one of these nodes in hand; end or revert that one first.")
        ) from error


@transaction.atomic
def pause_rollout(rollout: Rollout, *, by: User, at: datetime) -> None:
    """Let no further node begin; those under way go on to their end. at: cluster clock."""
    require_operator(by)
    _moved(rollout, RolloutState.PAUSED, "pause_rollout", by=by, at=at)


@transaction.atomic
def resume_rollout(rollout: Rollout, *, by: User, at: datetime) -> None:
    """Go on where it was stopped. Refused while a node has failed: it has to go back first."""
    require_operator(by)
    if rollout.changes.filter(step=Step.FAILED).exists():
        raise Refused(_("A node has failed. Revert the rollout, which brings all nodes back."))
    _moved(rollout, RolloutState.RUNNING, "resume_rollout", by=by, at=at)


@transaction.atomic
def revert_rollout(rollout: Rollout, *, by: User, at: datetime) -> None:
    """Bring every node back to what was confirmed of it before. at: cluster clock.

    Conflict: a later rollout has a node in hand, or has changed it; that one goes back first.
    """
    require_operator(by)
    later = NodeChange.objects.filter(
        node__in=rollout.changes.values("node"), rollout__pk__gt=rollout.pk
    ).exclude(step=Step.REVERTED)
    if later.exists():
        raise Conflict(_("A later rollout changed one of these nodes; revert that one first."))
    rollout.changes.filter(step=Step.FAILED).update(is_backward=False)
    with _claiming():
        rollout.changes.update(is_claimed=True)
    _moved(rollout, RolloutState.REVERTING, "revert_rollout", by=by, at=at, ended_at=None)


def _moved(
    rollout: Rollout, to: RolloutState, action: str, *, by: User, at: datetime, **changes: None
) -> None:
    before = rollout.state
    if not move_rollout(rollout, to, at=at, by=by, **changes):
        raise Conflict(_("This rollout has changed in the meantime; look again."))
    audit.record(action, rollout, by=by, before={"state": before}, after={"state": to})
