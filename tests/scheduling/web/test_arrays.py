"""An array in the browser: submitted by the form, listed as its tasks, cancelled."""

import json
import shlex

import pytest
import yaml

from scheduling.models import JobArray
from tenants.models import Role
from tests.factories import JobArrayFactory, JobFactory, MembershipFactory
from tests.scheduling.web.test_new_job import filled_in


@pytest.fixture
def array(scene):
    made = JobArrayFactory(
        tenant=scene.language, cluster=scene.cluster, owner=scene.omar, name="sweep", at_once=2
    )
    for index, state in enumerate(("succeeded", "queued", "queued")):
        JobFactory(
            tenant=scene.language,
            cluster=scene.cluster,
            owner=scene.omar,
            name=f"sweep[{index}]",
            array=made,
            array_index=index,
            state=state,
        )
    return made


def test_a_form_with_several_tasks_becomes_an_array(as_omar, scene):
    first = as_omar.post("/jobs/new/", filled_in(scene, tasks="3", at_once="2"))
    second = as_omar.post("/jobs/new/", filled_in(scene, tasks="3", at_once="2"))

    array = JobArray.objects.get()
    assert first["Location"] == second["Location"] == f"/jobs/?array={array.public_id}"
    assert (array.name, array.size, array.at_once) == ("my first job", 3, 2)


def test_more_at_once_than_there_are_is_said_beside_the_field(as_omar, scene):
    response = as_omar.post("/jobs/new/", filled_in(scene, tasks="3", at_once="4"))

    assert response.status_code == 422
    assert list(response.context["form"].errors) == ["at_once"]


def test_text_and_call_say_so_too(as_omar, scene):
    sent = filled_in(scene, tasks="3", at_once="2")
    text = as_omar.post("/jobs/new/", sent | {"view": "yaml"}).context["yaml"]
    call = as_omar.post("/jobs/new/", sent | {"view": "curl"}).context["curl"]
    made = as_omar.post("/jobs/new/", {"once": "0123456789abcdef", "yaml": text})

    words = shlex.split(call.replace("\\\n", ""))
    body = json.loads(words[words.index("-d") + 1])
    assert yaml.safe_load(text)["tasks"] == body["tasks"] == 3
    assert words[1].endswith("/api/v1/arrays")
    assert made["Location"] == f"/jobs/?array={JobArray.objects.get().public_id}"


def test_the_tasks_are_listed_under_their_array(as_omar, scene, array):
    page = as_omar.get(f"/jobs/?array={array.public_id}")

    rows = {row.job.name for row in page.context["rows"]}
    assert rows == {"sweep[0]", "sweep[1]", "sweep[2]"}
    assert "One job, 4 tasks. 2 run at once." in page.content.decode()
    assert f"/arrays/{array.public_id}/cancel/" in page.content.decode()


def test_a_tasks_page_leads_to_its_array(as_omar, scene, array):
    job = array.tasks.first()

    page = as_omar.get(f"/jobs/{job.public_id}/")

    assert f'href="/jobs/?array={array.public_id}"' in page.content.decode()


def test_what_is_left_is_cancelled_after_a_question(as_omar, scene, array):
    path = f"/arrays/{array.public_id}/cancel/"

    asked = as_omar.get(path)
    before = set(array.tasks.values_list("state", flat=True))
    done = as_omar.post(path, follow=True)
    nothing_left = as_omar.get(path)

    assert asked.context["total"] == 2
    assert before == {"succeeded", "queued"}
    assert "2 tasks of sweep are being cancelled." in done.content.decode()
    assert set(array.tasks.values_list("state", flat=True)) == {"succeeded", "cancelled"}
    assert nothing_left["Location"] == f"/jobs/?array={array.public_id}"


def test_who_may_not_cancel_is_offered_nothing(client, scene, array):
    viewer = client
    viewer.force_login(MembershipFactory(tenant=scene.language, role=Role.VIEWER).user)

    page = viewer.get(f"/jobs/?array={array.public_id}")

    assert page.status_code == 200
    assert "/cancel/" not in page.content.decode()
    assert viewer.post(f"/arrays/{array.public_id}/cancel/").status_code == 403
