from datetime import timedelta

import pytest

from scheduling.reports.job_detail import job_detail
from tests.factories import JobFactory, MemberFactory, PlacementFactory
from tests.factories.scheduling import T0

HOUR = timedelta(hours=1)


@pytest.mark.django_db
def test_a_member_whose_end_nobody_saw_ran_no_longer_than_it_held_its_place():
    job = JobFactory(members__gpus=4)
    placement = PlacementFactory(job=job, bound_at=T0, released_at=T0 + HOUR)
    MemberFactory(placement=placement, started_at=T0)

    times = job_detail(job, at=T0 + 24 * HOUR).times

    assert (times.run_gpu_seconds, times.held_gpu_seconds) == (4 * 3600, 4 * 3600)


@pytest.mark.django_db
def test_a_member_that_runs_has_run_until_now():
    job = JobFactory(members__gpus=4)
    MemberFactory(placement=PlacementFactory(job=job, bound_at=T0), started_at=T0)

    assert job_detail(job, at=T0 + HOUR).times.run_gpu_seconds == 4 * 3600
