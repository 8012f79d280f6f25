"""The page that gives a running job more time."""

import pytest

from scheduling.models import Job
from tests.factories import JobFactory, MembershipFactory


@pytest.fixture
def job(scene):
    return scene.jobs["llama-70b-pretrain"]


def more(client, job, hours):
    form = {"hours": hours, "seen": job.walltime_seconds or ""}
    return client.post(f"/jobs/{job.public_id}/extend/", form)


def test_the_page_of_a_running_job_says_when_it_ends_and_offers_more(as_omar, job):
    page = as_omar.get(f"/jobs/{job.public_id}/").content.decode()

    assert 'id="limit"' in page
    assert f'href="/jobs/{job.public_id}/extend/"' in page


def test_a_warned_job_says_so(as_omar, job):
    calm = as_omar.get(f"/jobs/{job.public_id}/").content.decode()
    Job.objects.filter(pk=job.pk).update(warned_at=job.limit_end_at, version=99)

    warned = as_omar.get(f"/jobs/{job.public_id}/").content.decode()

    assert "Its longest run is nearly over." not in calm
    assert "Its longest run is nearly over." in warned


def test_more_time_is_asked_for_and_given(as_omar, job):
    Job.objects.filter(state="queued").update(is_held=True)  # nobody is promised its place
    before = job.walltime_seconds

    asked = as_omar.get(f"/jobs/{job.public_id}/extend/")
    given = more(as_omar, job, "0.5")

    job.refresh_from_db()
    assert asked.status_code == 200
    assert (given.status_code, given.url) == (302, f"/jobs/{job.public_id}/")
    assert job.walltime_seconds == before + 1800


def test_a_form_that_is_sent_twice_gives_more_time_once(as_omar, job):
    Job.objects.filter(state="queued").update(is_held=True)
    before = job.walltime_seconds

    first, again = more(as_omar, job, "0.5"), more(as_omar, job, "0.5")

    job.refresh_from_db()
    assert (first.status_code, again.status_code) == (302, 422)
    assert "The job has changed in the meantime; look again." in again.content.decode()
    assert f'name="seen" value="{before + 1800}"' in again.content.decode()
    assert job.walltime_seconds == before + 1800


@pytest.mark.parametrize("hours", ["", "-1", "0", "nan", "1e9", "soon"])
def test_hours_that_make_no_sense_are_refused_beside_the_field(as_omar, job, hours):
    before = job.walltime_seconds

    refused = more(as_omar, job, hours)

    job.refresh_from_db()
    assert (refused.status_code, job.walltime_seconds) == (422, before)
    assert b'id="id_hours_error"' in refused.content


def test_who_was_promised_its_place_is_said_beside_the_field(as_omar, job):
    refused = more(as_omar, job, "48")

    assert refused.status_code == 422
    assert "promised to" in refused.content.decode()
    assert b'id="id_hours_error"' in refused.content


def test_a_job_that_does_not_run_has_no_such_page(as_omar, scene):
    ended = scene.jobs["sft-instruct-v3"]

    assert as_omar.get(f"/jobs/{ended.public_id}/extend/").url == f"/jobs/{ended.public_id}/"
    assert "/extend/" not in as_omar.get(f"/jobs/{ended.public_id}/").content.decode()


def test_a_viewer_sees_no_way_and_is_refused(client, scene, job):
    viewer = MembershipFactory(tenant=scene.language, role=1).user
    client.force_login(viewer)

    assert "/extend/" not in client.get(f"/jobs/{job.public_id}/").content.decode()
    assert client.get(f"/jobs/{job.public_id}/extend/").status_code == 403
    assert more(client, job, "1").status_code == 403


def test_a_strangers_job_does_not_exist(as_omar):
    theirs = JobFactory(state="running", attempt=1)

    assert more(as_omar, theirs, "1").status_code == 404
