"""Waits between the starts of one job that fail, so that others get the room it cannot use."""

from datetime import datetime, timedelta
from typing import Any

from scheduling.models import Job

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
_MOST_DOUBLINGS = 10  # past the longest wait

# The columns of a job that is tried like any other: it has started, or somebody did something.
AFRESH: dict[str, Any] = {"failed_starts": 0, "start_again_at": None}


def after_failed_start(job: Job, *, at: datetime) -> dict[str, Any]:
    """The columns of a job that could not be started as planned. at: cluster clock."""
    wait = min(FIRST_WAIT * 2 ** min(job.failed_starts, _MOST_DOUBLINGS), LONGEST_WAIT)
    return {"failed_starts": job.failed_starts + 1, "start_again_at": at + wait}
