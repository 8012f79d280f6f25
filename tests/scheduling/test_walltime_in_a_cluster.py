"""A job that runs into its limit: warned, asked to save, stopped; and one that gets more time."""

from datetime import timedelta

import pytest

from scheduling.models import Job
from scheduling.services.extending import extend_job
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest, JobRequest, Wishes
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube.parse import instant
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def person(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    return MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user


def running(stage, person, *, hours, **notes):
    """A job of two members with a limit, which would run for a day."""
    told = {"run-seconds": 86_400, **notes}
    request = JobRequest(
        name="train",
        cluster=stage.cluster,
        groups=(GroupRequest(members=2, gpus_per_member=2),),
        walltime_seconds=hours * HOUR,
        wishes=Wishes(grace_seconds=120),
        annotations={f"simcluster.muster.dev/{key}": str(text) for key, text in told.items()},
    )
    tenant = person.memberships.get().tenant
    job = submit_job(request, tenant=tenant, by=person, at=stage.now)
    stage.until(lambda: state_of(job) == "running")
    return Job.objects.get(pk=job.pk)


def state_of(job):
    return Job.objects.get(pk=job.pk).state


def pass_time(stage, until, *, step=30):
    """Time passes until then, and the beat with it."""
    while stage.now < until:
        stage.sim.step(min(step, (until - stage.now).total_seconds()))
        stage.work()
        reconcile(stage.cluster, at=stage.now)
        stage.work()


def told_end(stage):
    """What each pod was told of its end."""
    pods = stage.sim.call("GET", "/api/v1/pods")["items"]
    notes = [pod["metadata"]["annotations"].get("muster.dev/ends-at") for pod in pods]
    return [note and instant(note) for note in notes]


def wall(stage):
    """When the cluster itself ends the one Job."""
    [job] = stage.sim.call("GET", "/apis/batch/v1/jobs")["items"]
    opened = instant(job["status"]["startTime"])
    return opened + timedelta(seconds=job["spec"]["activeDeadlineSeconds"])


def test_it_is_warned_asked_to_save_and_stopped_with_its_work_saved(stage, person):
    job = running(stage, person, hours=2, **{"save-seconds": 40})
    ends_at = job.limit_end_at

    pass_time(stage, ends_at - timedelta(seconds=700))
    assert told_end(stage) == [ends_at, ends_at]
    assert wall(stage) - ends_at <= timedelta(seconds=120 + 600 + 1)

    pass_time(stage, ends_at + timedelta(seconds=200))

    job.refresh_from_db()
    assert job.state == "timed_out"
    assert ends_at <= job.ended_at <= ends_at + timedelta(seconds=120 + 31)
    assert job.checkpoint_at is not None
    assert job.checkpoint_at >= ends_at
    assert [event.to_state for event in job.events.order_by("pk")][-3:] == [
        "running",
        "stopping",
        "timed_out",
    ]


def test_more_time_moves_the_wall_and_what_the_pods_were_told(stage, person):
    job = running(stage, person, hours=2)
    ends_at = job.limit_end_at
    pass_time(stage, ends_at - timedelta(seconds=700))

    extend_job(job, 5 * HOUR, by=person, at=stage.now)
    stage.work()

    assert told_end(stage) == [ends_at + timedelta(hours=3)] * 2
    assert wall(stage) >= ends_at + timedelta(hours=3, seconds=120)
    pass_time(stage, ends_at + timedelta(hours=2), step=600)
    assert state_of(job) == "running"
    pass_time(stage, ends_at + timedelta(hours=3, minutes=5), step=60)
    assert state_of(job) == "timed_out"


def test_the_cluster_ends_it_while_nobody_else_does(stage, person):
    job = running(stage, person, hours=1)

    stage.sim.step(2 * HOUR + 200)
    stage.until(lambda: state_of(job) == "timed_out")

    job.refresh_from_db()
    assert job.ended_at - job.started_at < timedelta(hours=2, seconds=200)
