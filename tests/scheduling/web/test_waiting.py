"""The page of a waiting job: when it starts, what is in front, what would help; and changing it."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from scheduling.models import Job, QueueOrder
from tenants.models import Role
from tests.factories import (
    AdviceFactory,
    JobFactory,
    MembershipFactory,
    StartEstimateFactory,
)
from tests.scene import NOON
from topology.models import Cluster


@pytest.fixture(autouse=True)
def _nothing_sent_before():
    cache.clear()


@pytest.fixture
def job(scene):
    """It waits, and advice about it is fresh."""
    job = scene.jobs["moe-128-experts"]
    AdviceFactory(
        job=job,
        version=job.version,
        checked_at=NOON,
        checked_wall_at=timezone.now(),
        found=[
            {"kind": "members", "value": 1, "effect": "starts_now"},
            {"kind": "quota", "value": 8, "flavor": "H100-SXM", "effect": "may_start"},
            {
                "kind": "end",
                "value": scene.jobs["llama-70b-pretrain"].public_id,
                "effect": "starts_now",
            },
        ],
    )
    return job


def page_of(client, job, **headers):
    return client.get(f"/jobs/{job.public_id}/", headers=headers)


def links_in(page):
    helps = page.split('id="helps"')[1].split("</dd>")[0]
    return re.findall(r'<a [^>]*href="([^"]+)"', helps)


def test_what_would_help_has_a_button_that_leads_to_it(as_omar, scene, job):
    page = page_of(as_omar, job).content.decode()

    assert links_in(page) == [
        f"/jobs/{job.public_id}/change/?kind=members&amp;value=1",
        "/tenants/nlp/",
        f"/jobs/{scene.jobs['llama-70b-pretrain'].public_id}/",
    ]


def test_who_may_not_change_the_job_is_shown_no_button_for_it(client, scene, job):
    viewer = MembershipFactory(tenant=scene.language, role=Role.VIEWER).user
    client.force_login(viewer)

    links = links_in(page_of(client, job).content.decode())

    assert [link for link in links if "change" in link] == []


def test_stale_advice_is_not_shown_but_looked_for(
    as_omar, job, sent, django_capture_on_commit_callbacks
):
    job.advice.checked_wall_at -= timedelta(minutes=5)
    job.advice.save()

    with django_capture_on_commit_callbacks(execute=True):
        page = page_of(as_omar, job).content.decode()

    assert links_in(page) == []
    assert "It is being looked into" in page
    assert ("scheduling.advise", {"job_id": job.pk}) in sent


def test_advice_that_is_tried_again_stays_in_view(as_omar, job):
    job.advice.checked_wall_at -= timedelta(minutes=1)
    job.advice.save()

    page = page_of(as_omar, job).content.decode()

    assert links_in(page) != []
    assert "being tried again" in page


def test_the_likely_start_and_those_in_front_are_said(as_omar, scene, job):
    cluster, others = scene.cluster, Job.objects.waiting().exclude(pk=job.pk)
    QueueOrder.objects.create(cluster=cluster, jobs=[*others.values_list("pk", flat=True)], at=NOON)
    hour = timedelta(hours=1)
    StartEstimateFactory(
        job=job, made_at=NOON, earliest=NOON + hour, latest=NOON + 2 * hour, percent=80
    )

    page = page_of(as_omar, job).content.decode()

    assert "between 2026-03-02 13:00 and 14:00" in page
    assert "It is number 4 of 4 in the queue." in page
    assert len(re.findall(r'<li value="\d+">', page)) >= 1


def test_a_new_estimate_or_new_advice_changes_the_fragment(as_omar, scene, job):
    Cluster.objects.update(clock_speed=0)  # or a minute of it would pass between two answers
    htmx = {"HX-Request": "true"}
    tag = page_of(as_omar, job, **htmx)["ETag"]
    same = page_of(as_omar, job, **htmx, **{"If-None-Match": tag})
    StartEstimateFactory(job=job, made_at=NOON, unknown="no_past")

    changed = page_of(as_omar, job, **htmx, **{"If-None-Match": tag})

    assert (same.status_code, changed.status_code) == (304, 200)


def test_a_job_that_runs_says_nothing_of_waiting(as_omar, scene):
    page = page_of(as_omar, scene.jobs["llama-70b-pretrain"]).content.decode()

    assert 'id="waiting"' not in page


def test_the_page_costs_the_same_for_any_number_in_front(
    as_omar, scene, job, django_assert_num_queries
):
    page_of(as_omar, job)
    JobFactory.create_batch(7, cluster=scene.cluster, priority=500)

    with django_assert_num_queries(25):
        page_of(as_omar, job)


def test_a_change_is_shown_before_it_is_made(as_omar, job):
    address = f"/jobs/{job.public_id}/change/?kind=members&value=1"

    asked = as_omar.get(address).content.decode()
    made = as_omar.post(address, {"version": job.version}, follow=True)

    assert re.findall(r"<(?:del|ins)>([^<]+)<", asked) == ["4", "1"]
    assert made.redirect_chain == [(f"/jobs/{job.public_id}/", 302)]
    assert job.groups.get().min_member == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("kind=members&value=4", 422),
        ("kind=members&value=x", 404),
        ("kind=level&value=moon", 404),
        ("kind=quota&value=8", 404),
        ("", 404),
    ],
)
def test_a_change_that_makes_no_sense_is_not_made(as_omar, job, query, status):
    answer = as_omar.post(f"/jobs/{job.public_id}/change/?{query}", {"version": job.version})

    assert answer.status_code == status
    assert job.groups.get().min_member == 4


def test_a_change_to_a_job_that_has_changed_is_not_made(as_omar, job):
    address = f"/jobs/{job.public_id}/change/?kind=members&value=1"

    assert as_omar.post(address, {"version": job.version + 1}).status_code == 409


def test_a_viewer_may_not_change_a_job(client, scene, job):
    client.force_login(MembershipFactory(tenant=scene.language, role=Role.VIEWER).user)

    answer = client.get(f"/jobs/{job.public_id}/change/?kind=members&value=1")

    assert answer.status_code == 403


@pytest.mark.parametrize(("minutes", "says"), [(0, False), (2, True)])
def test_the_queue_says_when_the_scheduler_is_not_at_work(as_omar, scene, minutes, says):
    seen = timezone.now() - timedelta(minutes=minutes)
    Cluster.objects.update(clock_at=NOON, clock_wall_at=seen, clock_speed=60, planned_at=NOON)

    page = as_omar.get("/queue/").content.decode()

    assert ('id="stalled"' in page) == says
