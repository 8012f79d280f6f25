"""What a gang wrote is read from the cluster while it runs, and after it failed."""

import pytest

from scheduling.models import Job
from scheduling.reports.member_log import log_page, members_of
from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def submit(stage):
    """Submits a gang of two members that run for a minute and end with this exit code."""
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(exit_code):
        request = JobRequest(
            name="train",
            cluster=stage.cluster,
            groups=(GroupRequest(members=2, gpus_per_member=2),),
            annotations={
                "simcluster.muster.dev/run-seconds": "60",
                "simcluster.muster.dev/exit-code": str(exit_code),
            },
        )
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def until(stage, job, state):
    stage.until(lambda: Job.objects.get(pk=job.pk).state == state)
    return Job.objects.get(pk=job.pk)


def page_of(stage, job):
    return log_page(job, members_of(job)[0], stage.gateway, lines=200)


def test_a_log_is_read_while_its_member_runs(stage, submit):
    job = until(stage, submit(0), "running")
    stage.run(30)

    page = page_of(stage, job)

    assert [line.text.split()[0] for line in page.lines] == ["main:", "step", "step"]
    assert not page.is_final


def test_the_log_of_a_gang_that_failed_stays_to_be_read(stage, submit):
    job = until(stage, submit(1), "failed")
    stage.work()

    page = page_of(stage, job)

    assert page.lines[-2].text.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert page.is_final
    assert job.placements.filter(released_at=None).count() == 0


def test_the_log_of_a_gang_that_was_cancelled_is_gone_and_said_to_be(stage, submit):
    job = until(stage, submit(0), "running")
    cancel_job(job, by=job.owner, at=stage.now)
    job = until(stage, job, "cancelled")

    assert page_of(stage, job).silence.startswith("Its pod is no longer in the cluster")
