"""Case C33: a submission whose message comes early, never, or to a broker that is away."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from scheduling import tasks
from scheduling.models import Job
from tests.scheduling.world import World, state_of

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def world():
    return World.of()


def work(*messages):
    """A worker with a connection of its own does these tasks; raises what they raise."""

    def run():
        try:
            for name, arguments in messages:
                getattr(tasks, name.removeprefix("scheduling."))(**arguments)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()


def test_a_worker_before_the_commit_finds_nothing_and_one_after_it_starts_the_job(world, sent):
    early = ("scheduling.run_cycle", {"cluster_id": world.cluster.pk})

    with transaction.atomic():
        job = world.submit()
        work(early)
        told = list(sent)
    messages = list(sent)
    work(*messages)

    assert (told, messages) == ([], [early])
    assert state_of(job) == "starting"


def test_a_request_that_is_rolled_back_leaves_no_job_and_no_message(world, sent):
    with transaction.atomic():
        world.submit()
        transaction.set_rollback(True)

    world.cluster.refresh_from_db()
    assert (sent, Job.objects.count(), world.cluster.cycle_asked) == ([], 0, 0)


@pytest.fixture
def broker(broker_at):
    """Messages go to the broker, wherever it is said to be; see `_no_broker`."""
    return broker_at


def test_a_job_that_was_accepted_while_the_broker_was_away_is_started_once_by_the_beat(
    world, broker, caplog, request
):
    broker(NOBODY)

    job = world.submit()

    waiting = state_of(job)
    sent = request.getfixturevalue("sent")  # the broker is back, and the beat finds the job
    tasks.run_cycles()
    messages = [message for message in sent if message[0] == "scheduling.run_cycle"]
    work(*messages, *messages)

    assert waiting == "queued"
    assert "scheduling.run_cycle was not queued, the beat will find it" in caplog.text
    assert list(Job.objects.values_list("state", "attempt")) == [("starting", 1)]
