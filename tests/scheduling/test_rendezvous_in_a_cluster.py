"""What members are told of their gang when it is started, and when it grows."""

import pytest

from scheduling.models import Job
from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube import names
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def person(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    return MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user


def submitted(stage, person, *groups):
    request = JobRequest(
        name="train",
        cluster=stage.cluster,
        groups=groups,
        annotations={"simcluster.muster.dev/run-seconds": "2000"},
    )
    tenant = person.memberships.get().tenant
    return submit_job(request, tenant=tenant, by=person, at=stage.now)


def told(stage, job):
    """(rank, world size) that each pod of the job was told, by group and rank in it."""
    pods = stage.sim.call("GET", "/api/v1/pods")["items"]
    metadata = [pod["metadata"] for pod in pods]
    return {
        (own["labels"]["muster.dev/group"], own["labels"][names.RANK]): (
            own["annotations"]["muster.dev/rank"],
            own["annotations"]["muster.dev/world-size"],
        )
        for own in metadata
        if own["labels"].get("muster.dev/job") == job.public_id
        and "muster.dev/rank" in own["annotations"]
    }


def services(stage):
    return [own["metadata"]["name"] for own in stage.sim.call("GET", "/api/v1/services")["items"]]


def test_ranks_go_on_from_group_to_group_and_names_go_with_the_job(stage, person):
    chief = GroupRequest(name="chief", members=1, gpus_per_member=1)
    job = submitted(stage, person, chief, GroupRequest(name="worker", members=2, gpus_per_member=2))
    stage.until(lambda: Job.objects.get(pk=job.pk).state == "running")

    assert told(stage, job) == {
        ("chief", "0"): ("0", "3"),
        ("worker", "0"): ("1", "3"),
        ("worker", "1"): ("2", "3"),
    }
    assert services(stage) == [job.public_id]

    cancel_job(Job.objects.get(pk=job.pk), by=person, at=stage.now)
    stage.until(lambda: Job.objects.get(pk=job.pk).state == "cancelled")
    assert services(stage) == []


def test_members_that_join_are_told_the_size_as_it_then_is(stage, person):
    other = submitted(stage, person, GroupRequest(members=2, gpus_per_member=2))
    stage.until(lambda: Job.objects.get(pk=other.pk).state == "running")
    group = GroupRequest(members=1, max_member=3, gpus_per_member=2)
    job = submitted(stage, person, group)
    stage.until(lambda: len(told(stage, job)) == 2)

    cancel_job(Job.objects.get(pk=other.pk), by=person, at=stage.now)
    stage.until(lambda: len(told(stage, job)) == 3)

    assert told(stage, job)[("main", "2")] == ("2", "3")
    assert told(stage, job)[("main", "0")][0] == "0"


def test_who_is_alone_needs_no_names(stage, person):
    job = submitted(stage, person, GroupRequest(members=1, gpus_per_member=1))
    stage.until(lambda: Job.objects.get(pk=job.pk).state == "running")

    assert (services(stage), told(stage, job)) == ([], {("main", "0"): ("0", "1")})
