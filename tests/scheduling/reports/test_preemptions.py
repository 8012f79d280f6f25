"""One sentence each on the pages of a job that was stopped and of the one it made room for."""

import pytest
from django.urls import reverse

from scheduling.reports.preemptions import preemption_texts
from tests.factories import JobFactory, PreemptionFactory
from tests.scheduling.world import after

pytestmark = pytest.mark.django_db

GONE = {"gone_at": after(60), "lost_gpu_seconds": 1200}


def test_a_job_that_nobody_stopped_says_nothing():
    assert preemption_texts(JobFactory()) == ()


BORROWED = (
    "Stopped at 2026-01-01 00:00 UTC because its tenant had borrowed its GPUs and they were needed;"
    " it lost 20 GPU-minutes of work and goes on from its checkpoint of 2025-12-31 23:50 UTC."
)
OUTRANKED = (
    "Stopped at 2026-01-01 00:00 UTC because a job of higher priority needed its GPUs;"
    " it lost 20 GPU-minutes of work and starts again from the beginning."
)
STOPPING = (
    "Being stopped since 2026-01-01 00:00 UTC because its tenant had borrowed its GPUs and they"
    " were needed."
)
FOR_IT = (
    "At 2026-01-01 00:00 UTC 1 job was stopped for it, the one that lost least work:"
    " 20 GPU-minutes."
)
LENT_FOR_IT = FOR_IT.replace("1 job was", "1 job on GPUs that its tenant had lent was")
STOPPING_FOR_IT = (
    "Since 2026-01-01 00:00 UTC 1 job is being stopped for it, the one that loses least work."
)
BOTH_FOR_IT = (
    "At 2026-01-01 00:00 UTC 2 jobs on GPUs that its tenant had lent were stopped for it,"
    " those that lost least work: 40 GPU-minutes."
)


@pytest.mark.parametrize(
    ("what", "of_victim", "of_claimant"),
    [
        ({}, STOPPING, STOPPING_FOR_IT),
        ({**GONE, "checkpoint_at": after(-600)}, BORROWED, LENT_FOR_IT),
        ({**GONE, "why": "priority"}, OUTRANKED, FOR_IT),
    ],
    ids=["being stopped", "reclaimed, with a checkpoint", "outranked, without one"],
)
def test_both_jobs_say_so_in_one_sentence(what, of_victim, of_claimant):
    stop = PreemptionFactory(**what)

    assert preemption_texts(stop.job) == (of_victim,)
    assert preemption_texts(stop.claimant) == (of_claimant,)


def test_jobs_that_made_room_together_are_counted_together():
    first = PreemptionFactory(**GONE)
    PreemptionFactory(claimant=first.claimant, decided_at=after(-60), **GONE)  # before
    PreemptionFactory(claimant=first.claimant, **GONE)

    assert preemption_texts(first.claimant) == (BOTH_FOR_IT,)


def test_pages_show_the_sentence_and_not_whose_job_it_was(client, django_user_model):
    stop = PreemptionFactory(**GONE)
    client.force_login(django_user_model.objects.create(username="o", is_operator=True))

    page = client.get(reverse("job", args=[stop.job.public_id])).content.decode()

    assert "it lost 20 GPU-minutes of work" in page
    assert stop.claimant.public_id not in page
