from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Job
from tenants.models import Quota, Role
from tests.factories import MembershipFactory
from tests.scheduling.world import World, after

JOBS = "/api/v1/jobs"
HOUR = 3600


@pytest.fixture
def world(db):
    world = World.of(nodes=1)
    Quota.objects.update(nominal=64)
    return world


@pytest.fixture
def extend(client, world):
    """Asks for so many hours in all, as somebody; a researcher of the tenant if nobody is named."""

    def ask(job, hours, person=None):
        client.force_login(person or world.researcher)
        body = {"walltime_seconds": hours * HOUR}
        return client.post(f"{JOBS}/{job.public_id}/extend", body, "application/json")

    return ask


def test_a_running_job_gets_more_time(world, extend):
    job = world.running(walltime_seconds=HOUR)

    answer = extend(job, 3)

    assert (answer.status_code, answer.json()["walltime_seconds"]) == (200, 3 * HOUR)
    assert answer.json()["limit_end_at"] == f"{after(10 + 3 * HOUR):%Y-%m-%dT%H:%M:%SZ}"


def test_a_delay_of_others_is_refused_with_its_numbers(world, extend):
    job = world.running(walltime_seconds=HOUR)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now().replace(microsecond=0))
    waiting = world.submit(walltime_seconds=HOUR)
    ends_at = Job.objects.get(pk=job.pk).limit_end_at

    answer = extend(job, 2)

    said = answer.json()
    assert (answer.status_code, said["code"]) == (422, "would_delay")
    assert (said["job"], said["at"], said["until"]) == (
        waiting.public_id,
        ends_at.isoformat(),
        (ends_at + timedelta(hours=1)).isoformat(),
    )


@pytest.mark.parametrize("seconds", [0, -1, "soon", None, 2**31])
def test_what_is_no_time_is_not_understood(world, client, seconds):
    job = world.running(walltime_seconds=HOUR)
    client.force_login(world.researcher)

    body = {"walltime_seconds": seconds}
    answer = client.post(f"{JOBS}/{job.public_id}/extend", body, "application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_a_viewer_may_not(world, extend):
    viewer = MembershipFactory(tenant=world.tenant, role=Role.VIEWER).user
    job = world.running(walltime_seconds=HOUR)

    assert extend(job, 2, viewer).status_code == 403


def test_a_stranger_sees_no_such_job(world, extend):
    job = world.running(walltime_seconds=HOUR)

    assert extend(job, 2, MembershipFactory().user).status_code == 404
