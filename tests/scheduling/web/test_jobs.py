"""The list of jobs and the page of one."""

import re

import pytest

from scheduling.models import Job
from scheduling.states import JobState
from tests.factories import JobFactory, MembershipFactory

ROW = re.compile(r'<tr id="(j-[^"]+)" data-state="([^"]+)"')


def rows_of(response):
    return ROW.findall(response.content.decode())


def test_the_list_shows_the_jobs_of_ones_tenants_newest_first(as_omar, scene):
    shown = rows_of(as_omar.get("/jobs/"))

    newest = Job.objects.filter(tenant=scene.language).newest_first()
    assert shown == [(job.public_id, job.state) for job in newest]


@pytest.mark.parametrize("state", JobState)
def test_a_state_narrows_the_list_to_its_jobs(as_omar, scene, state):
    shown = rows_of(as_omar.get("/jobs/", {"state": state}))

    chosen = Job.objects.filter(tenant=scene.language, state=state).newest_first()
    assert shown == [(job.public_id, job.state) for job in chosen]
    assert shown


def test_the_list_is_searched_by_name_and_by_id(as_omar, scene):
    job = scene.jobs["sft-instruct-v3"]

    by_name = rows_of(as_omar.get("/jobs/", {"q": "INSTRUCT"}))
    by_id = rows_of(as_omar.get("/jobs/", {"q": job.public_id}))

    assert by_name == by_id == [(job.public_id, "succeeded")]


def test_only_mine_leaves_the_others_out(as_omar, scene):
    shown = rows_of(as_omar.get("/jobs/", {"owner": "me"}))

    mine = Job.objects.filter(owner=scene.omar).newest_first()
    assert [public_id for public_id, _state in shown] == [job.public_id for job in mine]


def test_a_column_can_be_sorted_and_says_so(as_omar, scene):
    response = as_omar.get("/jobs/", {"order": "name"})

    names = Job.objects.filter(tenant=scene.language).order_by("name")
    assert [public_id for public_id, _ in rows_of(response)] == [job.public_id for job in names]
    assert re.findall(r'aria-sort="(\w+)"', response.content.decode()) == ["ascending"]


@pytest.mark.parametrize(
    "query", ["state=nothing", "order=;drop", "page=0", "page=99999999999", "page=-1", "q=%00"]
)
def test_a_query_that_makes_no_sense_is_no_error(as_omar, query):
    assert as_omar.get(f"/jobs/?{query}").status_code == 200


@pytest.mark.django_db
def test_a_long_list_comes_in_pages(client):
    member = MembershipFactory()
    JobFactory.create_batch(27, tenant=member.tenant)
    client.force_login(member.user)

    first, last = client.get("/jobs/"), client.get("/jobs/", {"page": 2})

    assert (len(rows_of(first)), len(rows_of(last))) == (25, 2)
    assert b"1\xe2\x80\x9325 of 27" in first.content


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_any_number_of_jobs(client, count, django_assert_num_queries):
    member = MembershipFactory()
    JobFactory.create_batch(count, tenant=member.tenant)
    client.force_login(member.user)

    # session, user, counts, versions, jobs, groups, flavors, tenants to filter by, views, frame (2)
    with django_assert_num_queries(11):
        response = client.get("/jobs/")

    assert len(rows_of(response)) == count


def test_the_fragment_is_the_part_that_changes_and_is_304_until_it_does(as_omar, scene):
    fragment = as_omar.get("/jobs/", headers={"HX-Request": "true"})
    same = as_omar.get("/jobs/", headers={"HX-Request": "true", "If-None-Match": fragment["ETag"]})
    Job.objects.filter(pk=scene.jobs["eval-harness"].pk).update(version=7)
    changed = as_omar.get(
        "/jobs/", headers={"HX-Request": "true", "If-None-Match": fragment["ETag"]}
    )

    assert fragment.content.lstrip().startswith(b'<section id="job-table"')
    assert (same.status_code, changed.status_code) == (304, 200)


def test_the_page_of_a_waiting_job_says_why_it_waits(as_omar, scene):
    page = as_omar.get(f"/jobs/{scene.jobs['moe-128-experts'].public_id}/").content.decode()

    assert "There is no room for 4 of its members." in page
    assert "It is number 1 of 4 in the queue." in page


def test_a_waiting_job_says_how_many_are_in_front(as_omar, scene):
    page = as_omar.get(f"/jobs/{scene.jobs['fresh-submission'].public_id}/").content.decode()

    assert "It is number 4 of 4 in the queue." in page


def test_the_page_of_a_running_job_shows_its_members_and_their_gpus(as_omar, scene):
    page = as_omar.get(f"/jobs/{scene.jobs['llama-70b-pretrain'].public_id}/").content.decode()

    cells = re.findall(r'<td><a href="/cluster/nodes/([^/]+)/">.*?</td>\s*<td>([^<]*)</td>', page)
    assert cells == [("h100-01", "0–7"), ("h100-02", "0–7")]


def test_polling_a_job_stops_when_it_has_ended(as_omar, scene):
    htmx = {"HX-Request": "true"}

    running = as_omar.get(f"/jobs/{scene.jobs['llama-70b-pretrain'].public_id}/", headers=htmx)
    ended = as_omar.get(f"/jobs/{scene.jobs['sft-instruct-v3'].public_id}/", headers=htmx)

    assert (running.status_code, ended.status_code) == (200, 286)
    assert (b"hx-get" in running.content, b"hx-get" in ended.content) == (True, False)


def test_a_fragment_asked_for_after_signing_out_reloads_the_page(client, scene):
    response = client.get("/jobs/", headers={"HX-Request": "true"})

    assert (response.status_code, response["HX-Refresh"]) == (401, "true")


@pytest.mark.parametrize("tail", ["", "cancel/"])
def test_a_job_of_another_tenant_does_not_exist(as_omar, scene, tail):
    theirs = scene.jobs["theirs"].public_id

    answers = {as_omar.get(f"/jobs/{theirs}/{tail}").status_code}
    answers |= {as_omar.post(f"/jobs/{theirs}/cancel/").status_code}

    assert answers == {404}


def test_cancelling_asks_first_and_then_cancels(as_omar, scene):
    job = scene.jobs["moe-128-experts"]
    url = f"/jobs/{job.public_id}/cancel/"

    asked = as_omar.get(url)
    job.refresh_from_db()
    before = job.state
    done = as_omar.post(url)
    job.refresh_from_db()

    assert (asked.status_code, before) == (200, "queued")
    assert (done.status_code, done["Location"]) == (302, f"/jobs/{job.public_id}/")
    assert job.state == "cancelled"


def test_cancelling_what_has_ended_says_so(as_omar, scene):
    job = scene.jobs["sft-instruct-v3"]

    response = as_omar.post(f"/jobs/{job.public_id}/cancel/")

    assert response.status_code == 409
    assert "has already ended" in response.content.decode()


def test_a_viewer_sees_no_way_to_cancel_and_is_refused(client, scene):
    viewer = MembershipFactory(tenant=scene.language, role=1)
    client.force_login(viewer.user)
    job = scene.jobs["moe-128-experts"]

    page = client.get(f"/jobs/{job.public_id}/")
    asked = client.get(f"/jobs/{job.public_id}/cancel/")
    refused = client.post(f"/jobs/{job.public_id}/cancel/")

    assert (page.status_code, b'id="cancel"' in page.content) == (200, False)
    assert (asked.status_code, refused.status_code) == (403, 403)
