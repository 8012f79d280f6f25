"""Lists of jobs: many at once, views that are kept, and files."""

import csv
import io

import pytest

from scheduling.models import Job, SavedView
from tests.factories import JobFactory, SavedViewFactory

VIEW = "state=queued&owner=me"


def act(client, action, *jobs, **more):
    ids = [job.public_id for job in jobs]
    return client.post("/jobs/act/", {"action": action, "job": ids, **more})


def became(response):
    return [(one.job.name, one.refusal) for one in response.context["outcomes"]]


def test_jobs_are_cancelled_after_a_question(as_omar, scene):
    waiting, running = scene.jobs["moe-128-experts"], scene.jobs["llama-70b-pretrain"]

    asked = act(as_omar, "cancel", waiting, running)
    before = Job.objects.get(pk=waiting.pk).state
    done = act(as_omar, "cancel", waiting, running, sure="1")

    assert (asked.templates[0].name, before) == ("scheduling/jobs_sure.html", "queued")
    assert became(done) == [("llama-70b-pretrain", ""), ("moe-128-experts", "")]
    states = Job.objects.filter(pk__in=[waiting.pk, running.pk]).order_by("pk")
    assert [job.state for job in states] == ["stopping", "cancelled"]


def test_each_job_says_what_became_of_it(as_omar, scene):
    waiting, ended = scene.jobs["moe-128-experts"], scene.jobs["typo-run"]

    response = act(as_omar, "hold", waiting, ended)

    assert became(response) == [
        (
            "typo-run",
            f"{ended.public_id} does not wait; only a waiting job is put on hold or released.",
        ),
        ("moe-128-experts", ""),
    ]
    assert Job.objects.get(pk=waiting.pk).is_held


def test_held_jobs_are_released(as_omar, scene):
    job = scene.jobs["moe-128-experts"]
    Job.objects.filter(pk=job.pk).update(is_held=True)

    act(as_omar, "release", job)

    assert not Job.objects.get(pk=job.pk).is_held


def test_anothers_jobs_are_left_alone_and_not_named(as_omar, scene):
    mine, theirs = scene.jobs["moe-128-experts"], scene.jobs["theirs"]

    response = act(as_omar, "hold", mine, theirs)

    assert became(response) == [("moe-128-experts", "")]
    assert "secret-of-vision" not in response.content.decode()
    assert not Job.objects.get(pk=theirs.pk).is_held


@pytest.mark.parametrize("action", ["hold", "explode", ""])
def test_nothing_chosen_is_said_to_be(as_omar, scene, action):
    response = act(as_omar, action)

    assert response.status_code == 422
    assert "Choose jobs first" in response.content.decode()


def test_a_view_is_kept_under_a_name_and_removed(as_omar, scene):
    as_omar.post("/jobs/views/", {"name": "waiting", "query": f"{VIEW}&page=3&x=1"})
    view = SavedView.objects.get()
    shown = as_omar.get(f"/jobs/?{view.query}").content.decode()
    as_omar.post(f"/jobs/views/{view.pk}/forget/")

    assert (view.user, view.name, view.query) == (scene.omar, "waiting", VIEW)
    assert 'href="/jobs/?state=queued&amp;owner=me" aria-current="true">waiting</a>' in shown
    assert not SavedView.objects.exists()


@pytest.mark.parametrize(("name", "kept"), [("", 0), ("another", 20)])
def test_a_view_without_a_name_or_too_many_are_refused(as_omar, scene, name, kept):
    for number in range(kept):
        SavedViewFactory(user=scene.omar, name=f"view {number}")

    answer = as_omar.post("/jobs/views/", {"name": name, "query": VIEW})

    assert (answer.status_code, SavedView.objects.count()) == (422, kept)


def test_the_list_is_a_file_with_the_same_filter(as_omar, scene):
    JobFactory(tenant=scene.language, owner=scene.omar, name="=1+1", state="queued")

    response = as_omar.get("/jobs.csv?state=queued&order=name")
    text = response.content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))

    assert [(row["name"], row["state"]) for row in rows] == [
        ("'=1+1", "queued"),
        ("ablation-dropout", "queued"),
        ("fresh-submission", "queued"),
        ("moe-128-experts", "queued"),
    ]
    assert response["Content-Disposition"] == 'attachment; filename="jobs.csv"'


def test_a_name_that_no_job_can_have_chooses_none(as_omar, scene):
    response = as_omar.post("/jobs/act/", {"action": "hold", "job": ["\0"]})

    assert response.status_code == 422
