"""What waits for a worker is neither late nor queued over and over."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache
from django.db.models import F

from scheduling.models import Job
from scheduling.services import binding
from scheduling.services.reconciling import reconcile
from simcluster.testing import running_cluster
from tests.scheduling.world import T0
from topology.kube.live import connect

TIME_TO_BIND = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def _nothing_sent_yet():
    cache.clear()


@pytest.fixture
def gateway(tmp_path):
    with running_cluster(frozen=True) as cluster:
        yield connect(str(cluster.write_kubeconfig(tmp_path / "kubeconfig")))


def queue_again(world, capture):
    with capture(execute=True):
        reconcile(world.cluster, at=T0)


def test_the_time_to_bind_counts_from_when_a_worker_begins(world, gateway):
    job = world.started()
    patience = job.release_by - datetime.now(UTC)

    binding.bind(job.pk, job.attempt, gateway, at=T0)

    left = Job.objects.get(pk=job.pk).release_by - datetime.now(UTC)
    assert patience > 2 * TIME_TO_BIND
    assert timedelta(0) < left <= TIME_TO_BIND


def test_beginning_again_gives_no_more_time(world, gateway):
    job = world.started()
    binding.bind(job.pk, job.attempt, gateway, at=T0)
    soon = datetime.now(UTC) + timedelta(seconds=1)
    Job.objects.update(release_by=soon)

    binding.bind(job.pk, job.attempt, gateway, at=T0)

    assert Job.objects.get(pk=job.pk).release_by == soon


def test_what_may_still_be_queued_is_not_queued_again(
    world, sent, django_capture_on_commit_callbacks
):
    job = world.started()

    queue_again(world, django_capture_on_commit_callbacks)
    queue_again(world, django_capture_on_commit_callbacks)

    assert sent == [("scheduling.bind_job", {"job_id": job.pk, "attempt": 1})]


def test_another_attempt_is_another_message(world, sent, django_capture_on_commit_callbacks):
    job = world.started()
    queue_again(world, django_capture_on_commit_callbacks)
    Job.objects.update(attempt=F("attempt") + 1)

    queue_again(world, django_capture_on_commit_callbacks)

    assert sent == [
        ("scheduling.bind_job", {"job_id": job.pk, "attempt": attempt}) for attempt in (1, 2)
    ]
