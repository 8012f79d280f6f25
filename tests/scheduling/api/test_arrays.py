from scheduling.models import Job, JobArray
from tenants.models import Role
from tests.factories import JobArrayFactory, JobFactory, MembershipFactory

ARRAYS = "/api/v1/arrays"
ASKED = {"tenant": "vision", "name": "sweep", "tasks": 3, "at_once": 2}


def test_an_array_is_made_and_read(api, member, cluster):
    made = api.post(ARRAYS, ASKED, format="json")

    array = JobArray.objects.get()
    assert (made.status_code, made["Location"]) == (
        201,
        f"http://testserver{ARRAYS}/{array.public_id}",
    )
    assert made.json() == api.get(f"{ARRAYS}/{array.public_id}").json()
    assert made.json() == {
        "id": array.public_id,
        "name": "sweep",
        "tenant": "vision",
        "cluster": "main",
        "owner": "ada",
        "tasks": 3,
        "at_once": 2,
        "states": {"queued": 3},
        "external_id": "",
        "submitted_at": made.json()["submitted_at"],
    }


def test_jobs_tell_their_array_and_are_found_by_it(api, member, cluster):
    JobFactory(tenant=member.tenant, cluster=cluster)
    array = api.post(ARRAYS, ASKED, format="json").json()["id"]

    found = api.get(f"/api/v1/jobs?array={array}&order=name").json()["items"]

    assert [job["array"] for job in found] == [{"id": array, "index": n} for n in range(3)]


def test_arrays_are_listed_newest_first_with_what_became_of_their_tasks(
    api, member, cluster, stranger
):
    JobArrayFactory()
    array = JobArrayFactory(tenant=member.tenant, cluster=cluster)
    for index, state in enumerate(("queued", "succeeded", "succeeded")):
        JobFactory(
            tenant=member.tenant, cluster=cluster, array=array, array_index=index, state=state
        )

    listed = api.get(ARRAYS).json()["items"]

    assert [(row["id"], row["states"]) for row in listed] == [
        (array.public_id, {"queued": 1, "succeeded": 2})
    ]
    assert stranger.get(ARRAYS).json()["items"] == []


def test_an_array_is_cancelled(api, member, cluster):
    array = api.post(ARRAYS, ASKED, format="json").json()["id"]

    done = api.post(f"{ARRAYS}/{array}/cancel")
    again = api.post(f"{ARRAYS}/{array}/cancel")

    assert (done.status_code, done.json()["states"]) == (200, {"cancelled": 3})
    assert again.status_code == 409


def test_a_viewer_cancels_nothing(api, member, cluster):
    array = api.post(ARRAYS, ASKED, format="json").json()["id"]
    MembershipFactory._meta.model.objects.update(role=Role.VIEWER)  # noqa: SLF001 - factory_boy's public name for it

    assert api.post(f"{ARRAYS}/{array}/cancel").status_code == 403
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_what_is_wrong_is_named(api, member, cluster):
    answers = [
        api.post(ARRAYS, ASKED | wrong, format="json").json()["errors"][0]["pointer"]
        for wrong in ({"tasks": "many"}, {"tasks": 1001}, {"at_once": 4}, {"task": 1})
    ]

    assert answers == ["/tasks", "/tasks", "/at_once", "/task"]
    assert not JobArray.objects.exists()
