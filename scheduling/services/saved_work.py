"""What of a job's work is durable: checkpoints that its members report, and what a stop costs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F, Min

from scheduling.models import Job, Member, Preemption
from scheduling.states import MemberPhase


def note_checkpoint(member: Member) -> None:
    """Take a member's new checkpoint into account for its job.

    The gang's is the earliest of its members' last ones, of those that report any and have not
    done all their work.
    """
    gang = Member.objects.filter(job=member.job_id, attempt=member.attempt, is_leaving=False)
    last = gang.exclude(phase=MemberPhase.SUCCEEDED).aggregate(last=Min("checkpoint_at"))["last"]
    if last is not None:
        job = Job.objects.filter(pk=member.job_id, attempt=member.attempt)
        job.exclude(checkpoint_at=last).update(checkpoint_at=last, version=F("version") + 1)


def forget_stop(job: Job) -> None:
    """A job that finished before its stop reached it has made room by itself."""
    Preemption.objects.filter(job=job, attempt=job.attempt).delete()


def after_stop(job: Job, members: Sequence[Member], *, gone_at: datetime) -> dict[str, Any]:
    """The columns of a stopped job that say what it has saved, for when it starts again.

    Where it was stopped for another job, what that cost is written down. A program may not claim a
    checkpoint of a time at which it was gone.
    """
    saved_at = _resumes_from(job, gone_at)
    begun_at = job.started_at or gone_at
    durable_at = max(saved_at or begun_at, begun_at)
    gpus = sum(member.group.devices_per_member for member in members)
    Preemption.objects.filter(job=job, attempt=job.attempt).update(
        gone_at=gone_at,
        checkpoint_at=saved_at,
        lost_gpu_seconds=gpus * max(0, int((gone_at - durable_at).total_seconds())),
    )
    seconds = int((durable_at - begun_at).total_seconds())
    return {"checkpoint_at": saved_at, "saved_seconds": job.saved_seconds + seconds}


def _resumes_from(job: Job, gone_at: datetime) -> datetime | None:
    return None if job.checkpoint_at is None else min(job.checkpoint_at, gone_at)
