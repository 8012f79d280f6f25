"""What changes that come late leave in a cluster is put right, whoever asked for them."""

import pytest

from scheduling.models import Job
from scheduling.services.gangs import gangs_of, key_of
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
    """Submits a job that takes the whole node, with two members of at most four."""
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit():
        groups = (GroupRequest(members=2, max_member=4, gpus_per_member=4),)
        request = JobRequest(name="train", cluster=stage.cluster, groups=groups)
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def started(stage, job):
    stage.until(lambda: Job.objects.get(pk=job.pk).state == "running")
    job.refresh_from_db()
    return job


def gangs(stage):
    return [(group.job, group.members) for group in stage.gateway.gangs()]


def test_a_gang_that_is_made_for_a_job_that_waits_is_removed(stage, submit):
    first = started(stage, submit())
    waiting = submit()
    stage.gateway.ensure_gang(gangs_of(waiting, list(waiting.groups.all()), {})[0])
    before = gangs(stage)

    stage.until(lambda: len(gangs(stage)) == 1)

    assert len(before) == 2
    assert gangs(stage) == [(first.public_id, 2)]
    assert Job.objects.get(pk=waiting.pk).state == "queued"


def test_a_gang_that_is_resized_for_no_reason_has_its_size_again(stage, submit):
    job = started(stage, submit())
    stage.gateway.scale_gang(key_of(job, job.groups.get()), 3)
    before = gangs(stage)

    stage.until(lambda: gangs(stage) == [(job.public_id, 2)])

    assert before == [(job.public_id, 3)]
    stage.until(lambda: len(stage.gateway.members()) == 2)
