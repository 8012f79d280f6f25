"""In which order waiting jobs are looked at."""

from collections.abc import Iterable

from scheduling.engine.jobs import PendingJob


def in_order(pending: Iterable[PendingJob]) -> list[PendingJob]:
    """Urgent first, then oldest; the id last, so that a tie has one answer."""
    return sorted(pending, key=lambda job: (-job.priority, job.submitted_at, job.id))
