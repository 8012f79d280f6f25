"""Asking what would become of a job, without submitting it."""

import pytest

from portal.core.errors import NotAllowed
from portal.core.models import AuditEvent
from scheduling.models import Job, JobEvent
from scheduling.services.requests import GroupRequest, JobRequest
from scheduling.services.trial import try_job
from tests.factories import UserFactory
from tests.scheduling.world import after


def tried(world, members, **changes):
    group = GroupRequest(members=members, gpus_per_member=8)
    request = JobRequest(name="maybe", cluster=world.cluster, groups=(group,), **changes)
    return try_job(request, tenant=world.tenant, by=world.researcher, at=after(20))


def test_a_job_that_fits_would_start_on_named_nodes(world):
    trial = tried(world, members=1)

    assert (len(trial.starts_on), [n for _node, n in trial.starts_on]) == (1, [1])
    assert trial.advice is None


def test_a_job_that_does_not_fit_would_wait_and_says_why_and_what_would_help(world):
    world.running(members=1)

    trial = tried(world, members=2)

    assert trial.starts_on == ()
    assert trial.job.reason == "quota_exhausted"
    assert ("members", 1, "starts_now") in [
        (one["kind"], one["value"], one["effect"]) for one in trial.advice.found
    ]


def test_what_no_waiting_mends_is_told_from_a_wait(world):
    world.running(members=1)

    assert [tried(world, members=n).is_ruled_out for n in (2, 3)] == [False, True]


def test_nothing_is_left_of_a_trial(world, sent):
    before = world.cluster.cycle_asked

    tried(world, members=1, external_id="page-1")

    world.cluster.refresh_from_db()
    assert (Job.objects.count(), JobEvent.objects.count(), AuditEvent.objects.count()) == (0, 0, 0)
    assert (world.cluster.cycle_asked, sent) == (before, [])


def test_who_may_not_submit_may_not_try(world):
    group = GroupRequest(members=1, gpus_per_member=8)
    request = JobRequest(name="maybe", cluster=world.cluster, groups=(group,))

    with pytest.raises(NotAllowed):
        try_job(request, tenant=world.tenant, by=UserFactory(), at=after(20))
