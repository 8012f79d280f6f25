"""Jobs in a cluster that no row asks for, as changes that come late leave them."""

import pytest

from scheduling.services.lifecycle import cancel_job
from scheduling.services.requests import GroupRequest
from tests.scheduling.world import after


@pytest.fixture
def told(world, sent, django_capture_on_commit_callbacks):
    """What is sent when the cluster reports the Job of a job, which has not ended."""

    def tell(job, **what):
        sent.clear()
        with django_capture_on_commit_callbacks(execute=True):
            world.end(job, "", **what)
        return sent

    return tell


@pytest.fixture
def queued(world):
    return world.submit()


@pytest.fixture
def cancelled(world):
    job = world.submit()
    cancel_job(job, by=world.researcher, at=after(1))
    return job


@pytest.fixture
def succeeded(world):
    job = world.running()
    world.say(job, "succeeded")
    return job


@pytest.mark.parametrize(
    ("job", "is_suspended", "is_removed"),
    [
        ("queued", True, True),
        ("queued", False, True),
        ("cancelled", True, True),
        ("cancelled", False, True),
        ("succeeded", True, True),
        ("succeeded", False, False),
    ],
)
def test_a_gang_that_nobody_wants_is_removed(told, request, job, is_suspended, is_removed):
    job = request.getfixturevalue(job)

    sent = told(job, is_suspended=is_suspended)

    assert sent == [("scheduling.stop_job", {"job_id": job.pk})] * is_removed


def test_a_gang_of_somebody_else_is_left_alone(told, queued):
    queued.public_id = "j-theirs"

    assert told(queued) == []


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_gang_that_is_as_wanted_is_left_alone(told, world, state):
    job = {"starting": world.started, "running": world.running}[state]()

    assert told(job, members=1) == []


@pytest.mark.parametrize(("members", "is_off"), [(1, True), (2, False), (3, True)])
def test_a_running_gang_of_another_size_is_brought_to_its_own(told, world, members, is_off):
    job = world.running(groups=(GroupRequest(members=2, max_member=4, gpus_per_member=8),))

    sent = told(job, members=members)

    assert sent == [("scheduling.scale_job", {"job_id": job.pk, "attempt": 1})] * is_off
