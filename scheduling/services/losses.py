"""Members that were lost through no doing of the job: evicted, deleted, gone with their node."""

from datetime import datetime, timedelta

from scheduling.models import Job, Member
from scheduling.services.lifecycle import stop
from scheduling.states import ENDED_PHASES, JobState

MOST_IN_A_ROW = 5  # whatever takes the pods away, somebody has to look at it
LONG_RUN = timedelta(hours=1)  # an attempt that lasted so long is not one of a row


def stop_for_lost(job: Job, member: Member, *, at: datetime) -> bool:
    """Have a job that lost `member` stopped, to run again, or to fail if that happens all the time.

    True when this call won. at: cluster clock.
    """
    why = f"member {member.rank} was lost: {member.message or 'its pod is gone'}"
    return _stop(job, why, at=at)


def stop_for_misplaced(job: Job, member: Member, *, at: datetime) -> bool:
    """As `stop_for_lost`, for a member on a node that the ledger does not hold for it.

    Whoever put it there used devices that others are promised, while its own stand idle.
    """
    planned = member.placement.node.name
    return _stop(job, f"member {member.rank} is on {member.node_seen}, not on {planned}", at=at)


def is_misplaced(member: Member) -> bool:
    """Whether the cluster says that a live member is elsewhere than was planned."""
    is_live = member.phase not in ENDED_PHASES
    return is_live and member.node_seen not in {"", member.placement.node.name}


def _stop(job: Job, why: str, *, at: datetime) -> bool:
    has_lasted = job.started_at is not None and at - job.started_at >= LONG_RUN
    losses = 1 if has_lasted else job.losses_in_a_row + 1
    towards = JobState.QUEUED if losses < MOST_IN_A_ROW else JobState.FAILED
    return stop(job, towards=towards, at=at, reason=why, losses_in_a_row=losses)


def why_failed(job: Job) -> str:
    """Of a job that failed because it lost members again and again."""
    return f"lost members {job.losses_in_a_row} times in a row"
