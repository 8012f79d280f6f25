"""The only way in which rollouts and the nodes in them get on: compare and set, with a line."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.core.errors import IllegalTransition
from portal.core.queueing import send_on_commit
from tenants.models import User
from topology.models import Node, NodeChange, Rollout, RolloutEvent
from topology.services.cycle_request import ask_for_cycle
from topology.states import ACTIVE, ROLLOUT_TRANSITIONS, STEPS, RolloutState, Step

_NODE_IS_FREE = frozenset({Step.VERIFIED, Step.REVERTED})


@transaction.atomic
def move_rollout(
    rollout: Rollout,
    to: RolloutState,
    *,
    at: datetime,
    by: User | None = None,
    why: str = "",
    **changes: Any,
) -> bool:
    """Move `rollout` to `to`, unless another worker moved it first; True when this call won.

    at: cluster clock.
    """
    was = RolloutState(rollout.state)
    if to not in ROLLOUT_TRANSITIONS[was]:
        raise IllegalTransition(
            _("This rollout is %(was)s and cannot become %(to)s.")
            % {"was": was.label, "to": to.label}
        )
    won = Rollout.objects.filter(pk=rollout.pk, state=was).update(state=to, **changes)
    if won:
        RolloutEvent.objects.create(
            rollout=rollout, was=was, became=to, why=why[:300], actor=by, at=at
        )
        rollout.state = to
        send_on_commit("scheduling.advance_rollout", rollout_id=rollout.pk)
    return bool(won)


@transaction.atomic
def move_node(change: NodeChange, to: Step, *, at: datetime, why: str = "", **changes: Any) -> bool:
    """Bring the change of a node to step `to`, unless another worker did; True when this one did.

    While it is on its way nothing is placed on the node. at: cluster clock.
    """
    was = Step(change.step)
    if to not in STEPS[was]:
        raise IllegalTransition(f"{change} is at {was} and cannot come to {to}")
    where = NodeChange.objects.filter(pk=change.pk, step=was, is_backward=change.is_backward)
    changes = {"since": at, "mishap": "", "numbers": {}, **changes}
    if not where.update(step=to, **changes):
        return False
    RolloutEvent.objects.create(
        rollout_id=change.rollout_id, change=change, was=was, became=to, why=why[:300], at=at
    )
    change.step = to
    for name, value in changes.items():
        setattr(change, name, value)
    _tell(change)
    return True


def _tell(change: NodeChange) -> None:
    """Keep the planner off the node, or let it come back; have somebody go on with it."""
    is_changing = change.step in ACTIVE or change.step == Step.FAILED
    node = Node.objects.filter(pk=change.node_id).exclude(is_changing=is_changing)
    if node.update(is_changing=is_changing):
        ask_for_cycle(change.rollout.cluster_id)
    if change.step in ACTIVE:
        send_on_commit("scheduling.advance_change", change_id=change.pk)
    else:
        send_on_commit("scheduling.advance_rollout", rollout_id=change.rollout_id)
