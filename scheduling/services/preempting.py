"""Making room: running jobs are stopped for waiting ones, to wait again themselves."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from scheduling.engine.jobs import PendingJob, RunningJob
from scheduling.engine.plan import Preempt
from scheduling.engine.snapshot import Snapshot
from scheduling.models import DeviceHold, Job, Preemption
from scheduling.services.lifecycle import stop
from scheduling.services.policies import policy_in_force
from scheduling.states import JobState


@transaction.atomic
def preempt(preemption: Preempt, snapshot: Snapshot, *, at: datetime) -> bool:
    """Stop one job, to be queued again; False when it ended or was stopped since the snapshot."""
    job = Job.objects.displaceable().filter(pk=preemption.job).first()
    if job is None:
        return False
    claimant = preemption.on_behalf_of
    won = stop(
        job,
        towards=JobState.QUEUED,
        at=at,
        reason=_reason(preemption, snapshot),
        stopping_for_id=claimant,
        preempted_count=F("preempted_count") + (1 if claimant else 0),
    )
    if won and claimant:
        Preemption.objects.create(
            job=job,
            attempt=job.attempt,
            claimant_id=claimant,
            why=_why(preemption, snapshot),
            decided_at=at,
        )
    return won


def _reason(preemption: Preempt, snapshot: Snapshot) -> str:
    """For the job's events: a job of its own tenant by its id, another tenant's without."""
    if preemption.on_behalf_of is None:
        return "below its minimum"
    victim, claimant = _parties(preemption, snapshot)
    name = claimant.name if claimant.tenant == victim.tenant else "another tenant's job"
    return f"preempted for {name}"


def _parties(preemption: Preempt, snapshot: Snapshot) -> tuple[RunningJob, PendingJob]:
    victim = next(job for job in snapshot.running if job.id == preemption.job)
    return victim, next(job for job in snapshot.pending if job.id == preemption.on_behalf_of)


def _why(preemption: Preempt, snapshot: Snapshot) -> Preemption.Why:
    """Which of the rules allowed this stop, in the order in which the engine looks for victims."""
    victim, claimant = _parties(preemption, snapshot)
    if victim.standby:
        return Preemption.Why.STANDBY
    if victim.tenant != claimant.tenant and _is_on_a_loan(victim, snapshot):
        return Preemption.Why.RECLAIM
    return Preemption.Why.PRIORITY


def _is_on_a_loan(victim: RunningJob, snapshot: Snapshot) -> bool:
    quotas = snapshot.quotas
    flavors = {int(snapshot.node_flavor[member.node]) for member in victim.members}
    return any(
        quotas.usage[victim.tenant, flavor] > quotas.nominal[victim.tenant, flavor]
        for flavor in flavors
    )


def count_hold_anew(victim: Job, *, gone_at: datetime) -> None:
    """What is kept for the job that `victim` made room for expires counted from now.

    However long the stop took, whoever it was for has its time to start.
    """
    if victim.stopping_for_id is None:
        return
    expiry = timedelta(seconds=policy_in_force(victim.cluster).hold_expiry)
    DeviceHold.objects.filter(job=victim.stopping_for_id).update(
        until=Greatest("until", gone_at + expiry)
    )
