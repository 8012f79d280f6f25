"""The owner of a job is told what becomes of it."""

from datetime import timedelta

import pytest

from scheduling.models import JobEvent
from scheduling.services.telling import tell_of_jobs
from scheduling.states import JobState
from tenants.models import Notification
from tenants.services.notices import told
from tests.factories import JobEventFactory, JobFactory, UserFactory
from tests.scene import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def job():
    return JobFactory(name="train", owner__email="omar@example.org", submitted_at=NOON)


def says():
    return [told(row).says for row in Notification.objects.order_by("pk")]


@pytest.mark.parametrize(
    ("to", "reason", "text"),
    [
        (JobState.RUNNING, "", ["train runs, 5 min 00 s after it was submitted."]),
        (JobState.SUCCEEDED, "", ["train has ended well."]),
        (JobState.FAILED, "member 0 ended with exit code 1", ["train has failed."]),
        (JobState.TIMED_OUT, "", ["train was stopped: its longest run was over."]),
        (
            JobState.STOPPING,
            "preempted for urgent",
            ["train was stopped for another job, and waits again."],
        ),
        (JobState.STOPPING, "cancelled", []),
        (JobState.QUEUED, "submitted", []),
        (JobState.STARTING, "placed", []),
    ],
)
def test_each_step_is_told_in_its_own_words(job, to, reason, text):
    JobEventFactory(job=job, to_state=to, reason=reason, at=NOON + timedelta(minutes=5))

    counts = [tell_of_jobs(at=NOON), tell_of_jobs(at=NOON)]

    assert (says(), counts) == (text, [1, 0])
    assert not JobEvent.objects.filter(is_told=False).exists()


def test_a_cancellation_is_told_unless_it_was_ones_own(job):
    other = UserFactory(username="mei")
    JobEventFactory(job=job, to_state=JobState.CANCELLED, actor=job.owner, at=NOON)
    JobEventFactory(job=job, to_state=JobState.CANCELLED, actor=other, at=NOON)

    tell_of_jobs(at=NOON)

    assert says() == ["train was cancelled by mei."]


@pytest.mark.parametrize(("minutes", "is_mailed"), [(9, False), (10, True)])
def test_a_start_is_mailed_after_a_long_wait_only(job, minutes, is_mailed):
    JobEventFactory(job=job, to_state=JobState.RUNNING, at=NOON + timedelta(minutes=minutes))

    tell_of_jobs(at=NOON)

    assert (Notification.objects.get().mail_due_at is not None) == is_mailed


@pytest.mark.parametrize("count", [1, 3])
def test_telling_costs_the_same_for_any_number(job, count, django_assert_num_queries):
    for _number in range(count):
        JobEventFactory(job=job, to_state=JobState.SUCCEEDED, at=NOON)

    # two savepoints; events, choices, times, the notifications, the unread, webhooks, told
    with django_assert_num_queries(11):
        tell_of_jobs(at=NOON)
