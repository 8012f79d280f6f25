"""Jobs that wait for other jobs: who is lost, who still waits."""

from scheduling.engine.jobs import Dependency, ParentState, PendingJob
from scheduling.engine.plan import Reason, Why
from scheduling.engine.snapshot import Snapshot


class Dependencies:
    """The parents of waiting jobs. A job that is lost counts as failed for those that need it to
    succeed, and as ended for those that need it to end; that passes on within the cycle.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._lost: dict[int, int] = {}
        children = [job for job in snapshot.pending if job.after]
        found = True
        while found:
            found = False
            for job in children:
                parent = self._failed_parent(job)
                if parent is not None and job.id not in self._lost:
                    self._lost[job.id] = parent.job
                    found = True

    def failed(self, job: PendingJob) -> Why | None:
        """Why `job` can never start any more, or None."""
        if job.id not in self._lost:
            return None
        return Reason.DEPENDENCY_FAILED, (("job", self._lost[job.id]),)

    def waiting(self, job: PendingJob) -> Why | None:
        """Which parent `job` still waits for, or None."""
        for parent in job.after:
            if parent.state == ParentState.WAITING and parent.job not in self._lost:
                return Reason.WAITING_FOR_DEPENDENCY, (("job", parent.job),)
        return None

    def _failed_parent(self, job: PendingJob) -> Dependency | None:
        for parent in job.after:
            is_lost = parent.state == ParentState.FAILED or parent.job in self._lost
            if parent.needs_success and is_lost:
                return parent
        return None
