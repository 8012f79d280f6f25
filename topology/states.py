"""The life of a rollout and of the change of one node in it: what may follow what."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class RolloutState(TextChoices):
    RUNNING = "running", _("running")
    PAUSED = "paused", _("stopped")
    DONE = "done", _("done")
    REVERTING = "reverting", _("being reverted")
    REVERTED = "reverted", _("reverted")
    FAILED = "failed", _("failed")  # not all nodes came back to what they were


class Step(TextChoices):
    """Where the change of one node is. Forwards and backwards it goes the same way."""

    WAITING = "waiting", _("waiting for its turn")
    CORDON = "cordon", _("cordon")
    DRAIN = "drain", _("drain")
    WRITE = "write", _("write the configuration")
    LABEL = "label", _("label the node")
    MIG = "mig", _("wait for the MIG manager")
    PLUGIN = "plugin", _("wait for the device plugin")
    VERIFY = "verify", _("verify the counts")
    UNCORDON = "uncordon", _("uncordon")
    VERIFIED = "verified", _("verified")
    FAILED = "failed", _("failed")
    REVERTED = "reverted", _("as before")


class Mishap(TextChoices):
    """Why the change of a node failed."""

    MIG_FAILED = "mig_failed", _("the MIG manager could not apply the configuration")
    TOO_LATE = "too_late", _("it took longer than a node may")
    WRONG_COUNTS = "wrong_counts", _("the node offers something else than was planned")
    BUSY = "busy", _("somebody else is changing the layout of this node")
    GONE = "gone", _("the node is no longer in the cluster")
    REFUSED = "refused", _("the cluster refused")


ROLLOUT_TRANSITIONS: dict[RolloutState, frozenset[RolloutState]] = {
    RolloutState.RUNNING: frozenset(
        {RolloutState.PAUSED, RolloutState.DONE, RolloutState.REVERTING}
    ),
    RolloutState.PAUSED: frozenset({RolloutState.RUNNING, RolloutState.REVERTING}),
    RolloutState.DONE: frozenset({RolloutState.REVERTING}),
    RolloutState.REVERTING: frozenset({RolloutState.REVERTED, RolloutState.FAILED}),
    RolloutState.REVERTED: frozenset(),
    RolloutState.FAILED: frozenset({RolloutState.REVERTING}),
}
ROLLOUT_ENDED = frozenset({RolloutState.DONE, RolloutState.REVERTED})
DRIVEN = frozenset({RolloutState.RUNNING, RolloutState.REVERTING})

# From every step but the first the way back begins with a cordon, so that nothing starts meanwhile;
# of a node that has left nothing remains to be done.
_BACK = frozenset({Step.CORDON, Step.FAILED, Step.REVERTED})
STEPS: dict[Step, frozenset[Step]] = {
    Step.WAITING: frozenset({Step.CORDON, Step.REVERTED}),
    Step.CORDON: frozenset({Step.DRAIN}) | _BACK,
    Step.DRAIN: frozenset({Step.WRITE}) | _BACK,
    # A job that was placed before the cordon was known is drained like the others.
    Step.WRITE: frozenset({Step.LABEL, Step.DRAIN}) | _BACK,
    Step.LABEL: frozenset({Step.MIG}) | _BACK,
    Step.MIG: frozenset({Step.PLUGIN}) | _BACK,
    Step.PLUGIN: frozenset({Step.VERIFY}) | _BACK,
    Step.VERIFY: frozenset({Step.UNCORDON}) | _BACK,
    Step.UNCORDON: frozenset({Step.VERIFIED, Step.REVERTED}) | _BACK,
    Step.VERIFIED: frozenset({Step.CORDON}),
    Step.FAILED: frozenset({Step.CORDON, Step.REVERTED}),
    Step.REVERTED: frozenset(),
}
RESTING = frozenset({Step.WAITING, Step.VERIFIED, Step.FAILED, Step.REVERTED})
ACTIVE = frozenset(Step) - RESTING
TIMED = frozenset({Step.WRITE, Step.LABEL, Step.MIG, Step.PLUGIN, Step.VERIFY, Step.UNCORDON})
