"""What would help a waiting job: looked for on demand, kept for a cycle, never told when stale."""

from datetime import timedelta

import pytest
from django.core.cache import cache

from scheduling.models import Advice
from scheduling.services.advice import Found, advise, fresh_advice, last_advice, refresh_watched
from scheduling.tasks import advise as advise_task
from tests.factories import QuotaFactory, TenantFactory
from tests.scheduling.world import T0, after

WALL = T0 + timedelta(days=9)


@pytest.fixture(autouse=True)
def _nothing_sent_before():
    cache.clear()


@pytest.fixture
def job(world):
    """It asks for sixteen GPUs of which eight are free."""
    world.running(members=1)
    job = world.submit(members=2)
    world.plan(at=after(20))
    job.refresh_from_db()
    return job


def found(job):
    return [(one["kind"], one["value"], one["effect"]) for one in job.advice.found]


def test_what_helps_is_tried_on_the_cluster_as_it_is(job, world):
    advise(job, at=after(30), wall=WALL)

    other = world.cluster.jobs.exclude(pk=job.pk).get()
    assert found(job) == [
        ("members", 1, "starts_now"),
        ("gpus_per_member", 4, "starts_now"),
        ("end", other.public_id, "starts_now"),
    ]
    assert (job.advice.checked_at, job.advice.is_complete) == (after(30), True)


def test_quota_is_named_with_its_flavor(world):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=world.flavor, nominal=4, borrowing_limit=0)
    job = world.submit(members=1)
    job.tenant = tenant
    job.save()
    world.plan()
    job.refresh_from_db()

    advise(job, at=T0, wall=WALL)

    assert job.advice.found[0] == {
        "kind": "quota",
        "value": 4,
        "effect": "starts_now",
        "flavor": world.flavor.name,
    }


def test_advice_is_told_while_it_is_true(job, world):
    assert fresh_advice(job, wall=WALL) is None
    advise(job, at=after(30), wall=WALL)

    assert fresh_advice(job, wall=WALL + timedelta(seconds=30)) == job.advice
    assert fresh_advice(job, wall=WALL + timedelta(seconds=31)) is None


def test_a_cycle_that_decides_something_makes_advice_stale(job, world):
    advise(job, at=after(30), wall=WALL)
    world.submit(members=1)  # takes what was free

    world.plan(at=after(40))

    assert fresh_advice(job, wall=WALL) is None


def test_people_keep_the_last_advice_while_it_is_looked_for_again(job, world):
    advise(job, at=after(30), wall=WALL)
    world.submit(members=1)  # takes what was free
    world.plan(at=after(40))

    assert last_advice(job, wall=WALL + timedelta(seconds=120)) == Found(job.advice, is_true=False)
    assert last_advice(job, wall=WALL + timedelta(seconds=121)) is None


def test_a_change_of_the_job_makes_advice_stale(job):
    advise(job, at=after(30), wall=WALL)
    job.version += 1
    job.save()

    assert fresh_advice(job, wall=WALL) is None
    assert last_advice(job, wall=WALL) is None


def test_looking_asks_for_advice_once(job, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        fresh_advice(job, wall=WALL)
        fresh_advice(job, wall=WALL)
    advise_task(job_id=job.pk)

    assert sent.count(("scheduling.advise", {"job_id": job.pk})) == 1
    assert Advice.objects.get().job == job


def test_what_somebody_looks_at_is_looked_into_after_each_cycle(
    job, world, sent, django_capture_on_commit_callbacks
):
    advise(job, at=after(30), wall=WALL)
    assert refresh_watched(world.cluster) == 0
    fresh_advice(job, wall=WALL)

    with django_capture_on_commit_callbacks(execute=True):
        assert refresh_watched(world.cluster) == 1

    assert ("scheduling.advise", {"job_id": job.pk}) in sent


def test_a_job_that_runs_needs_none(world):
    job = world.running()

    advise(job, at=after(30), wall=WALL)

    assert (fresh_advice(job, wall=WALL), Advice.objects.count()) == (None, 0)


def test_a_search_that_takes_too_long_is_cut_short(job, monkeypatch):
    monkeypatch.setattr("scheduling.services.advice.BUDGET_SECONDS", 0.0)

    advise(job, at=after(30), wall=WALL)

    assert (len(job.advice.found), job.advice.is_complete) == (1, False)
