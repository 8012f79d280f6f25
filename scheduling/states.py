"""The life of a job, in one place: code, REST and pages all read it here."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class JobState(TextChoices):
    QUEUED = "queued", _("queued")
    STARTING = "starting", _("starting")
    RUNNING = "running", _("running")
    STOPPING = "stopping", _("stopping")
    SUSPENDED = "suspended", _("suspended")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    TIMED_OUT = "timed_out", _("timed out")
    CANCELLED = "cancelled", _("cancelled")


class MemberPhase(TextChoices):
    """Where one member is, in the order it may go: a later report never takes it back."""

    EXPECTED = "expected", _("expected")  # planned; no pod of it seen
    GATED = "gated", _("held at the gate")
    BINDING = "binding", _("released")  # gate open, no node yet
    BOUND = "bound", _("on its node")
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    GONE = "gone", _("gone")  # its pod is no longer there


# Nothing else decides what may follow what.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.CANCELLED, JobState.FAILED}),
    JobState.STARTING: frozenset({JobState.RUNNING, JobState.STOPPING, JobState.QUEUED}),
    JobState.RUNNING: frozenset(
        {JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT, JobState.STOPPING}
    ),
    # A job whose members all finished before the stop reached them has succeeded all the same.
    # One that lost members again and again has failed once the others are gone.
    JobState.STOPPING: frozenset(
        {
            JobState.QUEUED,
            JobState.SUSPENDED,
            JobState.FAILED,
            JobState.TIMED_OUT,
            JobState.CANCELLED,
            JobState.SUCCEEDED,
        }
    ),
    JobState.SUSPENDED: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.TIMED_OUT: frozenset(),
    JobState.CANCELLED: frozenset(),
}
FINAL = frozenset(state for state, after in TRANSITIONS.items() if not after)
DISPLACEABLE = frozenset({JobState.STARTING, JobState.RUNNING})
HOLDING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
ENDED_PHASES = frozenset({MemberPhase.SUCCEEDED, MemberPhase.FAILED, MemberPhase.GONE})
PHASE_ORDER = {phase: order for order, phase in enumerate(MemberPhase)}
