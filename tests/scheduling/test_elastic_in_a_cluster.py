"""A gang grows into what comes free, and gives it back, as its Job in the cluster shows."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.models import Job, Member
from scheduling.services.reconciling import reconcile
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.submission import submit_job
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.scheduling.stage import a_stage
from topology.kube.gateway import RefusedByCluster
from topology.models import ResourceFlavor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(tmp_path, sent):
    with a_stage("1xH100-SXM:8", folder=tmp_path, sent=sent) as stage:
        yield stage


@pytest.fixture
def submit(stage):
    """Submits a job of so many members of two GPUs each, at most `most`."""
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=8)
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user

    def submit(members, *, most=None, seconds):
        request = JobRequest(
            name="train",
            cluster=stage.cluster,
            groups=(GroupRequest(members=members, max_member=most, gpus_per_member=2),),
            annotations={"simcluster.muster.dev/run-seconds": str(seconds)},
        )
        return submit_job(request, tenant=tenant, by=person, at=stage.now)

    return submit


def running(stage, job):
    """Ranks of the job's pods that run, and on how many GPUs together."""
    pods = [pod for pod in stage.gateway.members() if pod.job == job.public_id]
    live = [pod for pod in pods if pod.phase == "running" and not pod.stopping]
    return sorted(pod.rank for pod in live)


def test_a_gang_grows_shrinks_and_succeeds(stage, submit):
    first = submit(2, seconds=100)
    elastic = submit(1, most=4, seconds=2000)
    stage.until(lambda: running(stage, elastic) == [0, 1])

    stage.until(lambda: running(stage, elastic) == [0, 1, 2, 3], step=10)

    assert Job.objects.get(pk=first.pk).state == "succeeded"

    urgent = submit(3, seconds=50)
    stage.until(lambda: running(stage, urgent) == [0, 1, 2])

    assert running(stage, elastic) == [0]

    stage.until(lambda: running(stage, elastic) == [0, 1, 2, 3], step=10)
    stage.until(lambda: Job.objects.get(pk=elastic.pk).state == "succeeded", step=50)

    elastic.refresh_from_db()
    assert (elastic.attempt, elastic.preempted_count) == (1, 0)
    sizes = [event.reason for event in elastic.events.filter(reason__startswith="size")]
    assert sizes == [
        "size 4, was 2",
        f"size 1, was 4: room for {urgent.public_id}",
        "size 4, was 1",
    ]


class Refusing:
    """A gateway that may not change the size of gangs."""

    def __init__(self, gateway):
        self._gateway = gateway

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    def scale_gang(self, key, members):
        raise RefusedByCluster("Job: forbidden")


def test_a_gang_that_the_cluster_does_not_let_grow_keeps_its_size_and_gives_back(
    stage, submit, caplog
):
    first = submit(3, seconds=100)
    elastic = submit(1, most=2, seconds=2000)
    stage.until(lambda: running(stage, elastic) == [0])
    willing, stage.gateway = stage.gateway, Refusing(stage.gateway)

    stage.until(lambda: Member.objects.filter(job=elastic).count() == 2, step=10)
    Job.objects.filter(pk=elastic.pk).update(release_by=datetime.now(UTC) - timedelta(minutes=1))
    reconcile(stage.cluster, at=stage.now)

    stage.gateway = willing
    stage.until(lambda: running(stage, elastic) == [0, 1], step=10)
    assert f"{elastic.public_id} keeps its size: Job: forbidden" in caplog.messages
    assert [event.reason for event in elastic.events.filter(reason__startswith="size")][:2] == [
        "size 2, was 1",
        "size 1, was 2: not bound in time",
    ]
    assert Job.objects.get(pk=first.pk).state == "succeeded"
