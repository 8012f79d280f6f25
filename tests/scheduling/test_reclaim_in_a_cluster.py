"""Lent quota is reclaimed, from the owner's submission to the end of the job that made room."""

import pytest

from scheduling.models import Job
from scheduling.reports.preemptions import preemption_texts
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import (
    CohortFactory,
    MembershipFactory,
    QuotaFactory,
    TenantFactory,
)
from tests.scheduling.stage import a_stage
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

RUN = 3000  # seconds


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def tenants(stage):
    """(who owns all GPUs and lends them, who has none and borrows)."""
    cohort, flavor = CohortFactory(), ResourceFlavor.objects.get()
    owner, borrower = TenantFactory(cohort=cohort), TenantFactory(cohort=cohort)
    QuotaFactory(tenant=owner, flavor=flavor, nominal=8)
    QuotaFactory(tenant=borrower, flavor=flavor, nominal=0)
    return owner, borrower


def submitted(stage, tenant, **notes):
    """A job of four GPUs. notes: what its pods do, as simcluster reads it."""
    names = {f"simcluster.muster.dev/{name.replace('_', '-')}": str(v) for name, v in notes.items()}
    request = JobRequest(
        name="train",
        cluster=stage.cluster,
        groups=(GroupRequest(members=2, gpus_per_member=2),),
        annotations=names,
    )
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    return submit_job(request, tenant=tenant, by=person, at=stage.now)


def states(*jobs):
    return [Job.objects.get(pk=job.pk).state for job in jobs]


def saved_at(job):
    return Job.objects.get(pk=job.pk).checkpoint_at


def work_done(job):
    """Seconds of work: what earlier attempts saved, and the last one's run."""
    job = Job.objects.get(pk=job.pk)
    return job.saved_seconds + (job.ended_at - job.started_at).total_seconds()


def test_the_victim_that_loses_least_makes_room_and_goes_on_from_its_checkpoint(stage, tenants):
    owner, borrower = tenants
    seldom = submitted(stage, borrower, run_seconds=RUN, checkpoint_seconds=500)
    often = submitted(stage, borrower, run_seconds=RUN, checkpoint_seconds=300)
    stage.run(700, step=50)
    stage.until(lambda: saved_at(seldom) and saved_at(often) > saved_at(seldom))
    own = submitted(stage, owner, run_seconds=600)
    before = stage.cycles

    stage.work()  # not a second passes

    assert stage.cycles - before <= 2
    assert states(seldom, often, own) == ["running", "stopping", "queued"]

    stage.until(lambda: states(own) == ["running"])

    assert states(seldom, often) == ["running", "queued"]
    assert "goes on from its checkpoint" in preemption_texts(often)[0]
    assert "the one that lost least work" in preemption_texts(own)[0]

    stage.until(lambda: states(seldom, often, own) == ["succeeded"] * 3, step=50)

    assert [work_done(job) for job in (seldom, often, own)] == [RUN, RUN, 600]
    often.refresh_from_db()
    assert (often.attempt, often.saved_seconds) == (2, 600)


def test_a_job_that_saves_as_it_is_told_to_end_loses_nothing(stage, tenants):
    owner, borrower = tenants
    jobs = [submitted(stage, borrower, run_seconds=RUN, save_seconds=20) for _ in range(2)]
    stage.until(lambda: states(*jobs) == ["running"] * 2)
    stage.run(100)
    submitted(stage, owner, run_seconds=600)

    stage.until(lambda: states(*jobs) == ["succeeded"] * 2, step=50)

    (victim,) = Job.objects.filter(attempt=2)
    assert victim.preemptions.get().lost_gpu_seconds == 0
    assert [work_done(job) for job in jobs] == [RUN, RUN]
