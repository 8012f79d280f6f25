"""A rollout as a whole: which node is next, whether to stop, when it is over."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from portal.core.queueing import send_again
from scheduling.services.layouts.moves import move_node, move_rollout
from topology.models import NodeChange, Rollout
from topology.states import ACTIVE, DRIVEN, RolloutState, Step


@transaction.atomic
def advance_rollout(rollout_id: int, *, at: datetime) -> None:
    """Let the next nodes begin, or end the rollout. at: cluster clock."""
    rollout = Rollout.objects.select_for_update().get(pk=rollout_id)
    changes = list(rollout.changes.select_related("node").order_by("wave", "node__name"))
    for change in changes:
        change.rollout = rollout
    if rollout.state == RolloutState.RUNNING:
        _forwards(rollout, changes, at=at)
    elif rollout.state == RolloutState.REVERTING:
        _backwards(rollout, changes, at=at)


def _forwards(rollout: Rollout, changes: Sequence[NodeChange], *, at: datetime) -> None:
    failed = [change.node.name for change in changes if change.step == Step.FAILED]
    left = [change for change in changes if change.step != Step.VERIFIED]
    if failed:
        move_rollout(rollout, RolloutState.PAUSED, at=at, why=", ".join(failed))
    elif not left:
        _end(rollout, RolloutState.DONE, at=at)
    else:
        active = sum(change.step in ACTIVE for change in left)
        of_wave = [own for own in left if own.wave == left[0].wave and own.step == Step.WAITING]
        for change in of_wave[: max(0, rollout.max_unavailable - active)]:
            move_node(change, Step.CORDON, at=at)


def _backwards(rollout: Rollout, changes: Sequence[NodeChange], *, at: datetime) -> None:
    """Whatever was not touched is as before at once; nodes that serve go back a few at a time."""
    for change in changes:
        if change.step == Step.WAITING or (change.step == Step.FAILED and not change.before):
            move_node(change, Step.REVERTED, at=at)
        elif not change.is_backward and change.step not in {Step.VERIFIED, Step.REVERTED}:
            _turn(change, at=at)
    active = sum(change.step in ACTIVE for change in changes)
    serving = [change for change in changes if change.step == Step.VERIFIED]
    for change in serving[: max(0, rollout.max_unavailable - active)]:
        _turn(change, at=at)
    steps = {change.step for change in changes}
    if steps == {Step.REVERTED}:
        _end(rollout, RolloutState.REVERTED, at=at)
    elif steps <= {Step.REVERTED, Step.FAILED}:
        failed = [change.node.name for change in changes if change.step == Step.FAILED]
        move_rollout(rollout, RolloutState.FAILED, at=at, why=", ".join(failed))


def _turn(change: NodeChange, *, at: datetime) -> None:
    move_node(change, Step.CORDON, at=at, is_backward=True, working_since=None)


def _end(rollout: Rollout, state: RolloutState, *, at: datetime) -> None:
    ended_at = max(at, rollout.begun_at)
    if move_rollout(rollout, state, at=at, ended_at=ended_at):
        rollout.changes.update(is_claimed=False)


def find_lost() -> None:
    """Queue again what rows say is under way, as a message may have been lost."""
    for rollout_id in Rollout.objects.filter(state__in=DRIVEN).values_list("pk", flat=True):
        send_again("scheduling.advance_rollout", rollout_id=rollout_id)
    active = NodeChange.objects.filter(step__in=ACTIVE)
    for change_id in active.values_list("pk", flat=True):
        send_again("scheduling.advance_change", change_id=change_id)
