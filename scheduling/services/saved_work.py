"""What of a job's work is durable: checkpoints that its members report, and what a stop costs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Min

from scheduling.models import Job, Member, Preemption


def note_checkpoint(member: Member) -> None:
    """Take a member's new checkpoint into account for its job.

    The gang's is the earliest of its members' last ones, of those that report any.
    """
    gang = Member.objects.filter(job=member.job_id, attempt=member.attempt)
    last = gang.aggregate(last=Min("checkpoint_at"))["last"]
    job = Job.objects.filter(pk=member.job_id, attempt=member.attempt)
    job.exclude(checkpoint_at=last).update(checkpoint_at=last, version=F("version") + 1)


def after_stop(job: Job, members: Sequence[Member], *, gone_at: datetime) -> dict[str, Any]:
    """The columns of a stopped job that waits again: what it has saved by now.

    Where it was stopped for another job, what that cost is written down. A program may not claim a
    checkpoint of a time at which it was gone.
    """
    saved_at = _resumes_from(job, gone_at)
    begun_at = job.started_at or gone_at
    durable_at = max(saved_at or begun_at, begun_at)
    gpus = sum(member.group.gpus_per_member for member in members)
    Preemption.objects.filter(job=job, attempt=job.attempt).update(
        gone_at=gone_at,
        checkpoint_at=saved_at,
        lost_gpu_seconds=gpus * max(0, int((gone_at - durable_at).total_seconds())),
    )
    seconds = int((durable_at - begun_at).total_seconds())
    return {"checkpoint_at": saved_at, "saved_seconds": job.saved_seconds + seconds}


def _resumes_from(job: Job, gone_at: datetime) -> datetime | None:
    return None if job.checkpoint_at is None else min(job.checkpoint_at, gone_at)
