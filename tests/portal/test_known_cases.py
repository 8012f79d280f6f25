"""What went wrong in other portals, tried on this one."""

import csv
import io

import pytest
from django.test import Client

from scheduling.models import Job, Placement
from scheduling.services.requests import After, Wishes
from scheduling.states import JobState
from tenants.models import Role
from tests.factories import JobFactory, MembershipFactory, PriorityClassFactory
from tests.scene import make_scene
from tests.scheduling.world import World, after
from tests.scheduling.world import state_of as now

API = "/api/v1/jobs"


@pytest.fixture
def world(db):
    return World.of()


@pytest.fixture
def scene(db):
    return make_scene()


@pytest.fixture
def omar(scene):
    """Somebody of `nlp`, signed in; `vision` is no business of theirs."""
    client = Client()
    client.force_login(scene.omar)
    return client


# C31: dependencies, unknown and failed


@pytest.mark.parametrize("named", ["j-zzzzzz", "theirs"])
def test_a_parent_that_is_unknown_or_anothers_is_refused_by_its_id(omar, scene, named):
    """So there are no circles either: a job names only those that were there before it."""
    named = scene.jobs["theirs"].public_id if named == "theirs" else named

    answer = omar.post(
        API,
        {"tenant": "nlp", "cluster": "demo", "name": "y", "after": [{"job": named}]},
        content_type="application/json",
    )

    assert answer.status_code in {400, 422}
    assert "after" in str(answer.json()["errors"])
    assert not Job.objects.filter(name="y").exists()


def test_after_a_failure_all_that_needed_its_success_have_failed_at_once(world):
    def child(*parents, needs=True):
        wishes = Wishes(after=tuple(After(job=p, needs_success=needs) for p in parents))
        return world.submit(gpus=1, wishes=wishes)

    a, f = world.running(gpus=1), world.running(gpus=1)
    b, d = child(a), child(a, needs=False)
    c, e = child(b), child(a, f)
    world.say(a, "failed")
    world.end(a, "failed")

    world.plan(at=after(30))

    assert [now(job) for job in (a, f)] == ["failed", "running"]
    assert [now(job) for job in (b, c, e)] == ["failed"] * 3
    assert now(d) == "starting"
    assert not Placement.objects.filter(job__in=[b, c, e]).exists()


# C32: another tenant, by its address


PAGES = ("", "logs/", "logs/file/", "events/", "spec/", "cancel/", "change/", "extend/")
CALLS = ("", "/events", "/explanation")
ACTS = ("/cancel", "/hold", "/release", "/extend")


@pytest.mark.parametrize("which", ["theirs", "nobodys"])
def test_what_is_another_tenants_answers_as_what_is_not_there(omar, scene, which):
    job = scene.jobs["theirs"]
    public_id = job.public_id if which == "theirs" else "j-zzzzzz"

    read = [f"/jobs/{public_id}/{page}" for page in PAGES]
    read += [f"{API}/{public_id}{call}" for call in CALLS]
    read += [f"/jobs/new/?from={public_id}"]
    answers = [omar.get(path) for path in read]
    answers += [omar.post(f"{API}/{public_id}{act}") for act in ACTS]
    answers += [omar.post(f"/jobs/{public_id}/{page}") for page in ("cancel/", "change/")]
    before, job = job, Job.objects.get(pk=job.pk)

    assert {answer.status_code for answer in answers} == {404}
    assert not any("secret-of-vision" in answer.content.decode() for answer in answers)
    assert (job.state, job.version, job.is_held) == (before.state, before.version, before.is_held)


@pytest.mark.parametrize("path", ["/jobs/", "/jobs.csv", API])
def test_a_filter_by_anothers_tenant_is_that_by_an_unknown_one(omar, scene, path):
    theirs, nobodys = (omar.get(path, {"tenant": slug}).content for slug in ("vision", "zzz"))

    assert theirs.replace(b"vision", b"zzz").count(b"secret-of-zzz") == 0
    if path != "/jobs/":  # a page has marks that change from one to the next
        assert theirs.replace(b"vision", b"zzz") == nobodys
    else:
        assert b"No job matches." in theirs


@pytest.mark.parametrize("unknown", ["namespace=team-b", "owner=vera"])
def test_a_parameter_that_the_api_does_not_know_is_refused(omar, scene, unknown):
    assert omar.get(f"{API}?{unknown}").status_code == 400


@pytest.mark.parametrize("step", ["..", "%2e%2e", "%2e%2e%2f"])
def test_steps_upwards_lead_nowhere(omar, scene, step):
    answers = [omar.get(f"/jobs/{step}/logs/"), omar.get(f"{API}/{step}/events")]

    assert {answer.status_code for answer in answers} == {404}


# C34: priority is no free text


@pytest.fixture
def bounded(scene):
    """`nlp` may use priorities up to the class `normal`; jobs of `vision` hold GPUs."""
    scene.language.highest_priority = PriorityClassFactory(name="fifty", value=50)
    scene.language.save()
    PriorityClassFactory(name="ninety", value=90)
    return scene


BODY = {"tenant": "nlp", "cluster": "demo", "name": "urgent", "gpus_per_member": 1}


def held(scene):
    theirs = Job.objects.filter(tenant=scene.vision).order_by("pk")
    return [(job.public_id, job.state, job.version) for job in theirs]


@pytest.mark.parametrize(
    "said",
    [
        {"priority": "ninety"},
        {"priority": "system-node-critical"},
        {"priority": 1_000_000},
        {"priorityClassName": "system-node-critical"},
        {"annotations": {"muster.dev/priority": "90"}},
    ],
)
def test_a_priority_beyond_the_tenants_is_refused_and_touches_nobody(omar, bounded, said):
    before = held(bounded)

    answer = omar.post(API, BODY | said, content_type="application/json")

    assert answer.status_code in {400, 422}
    assert not Job.objects.filter(name="urgent").exists()
    assert held(bounded) == before


def test_the_refusal_names_what_is_allowed(omar, bounded):
    answer = omar.post(API, BODY | {"priority": "ninety"}, content_type="application/json")

    assert "up to fifty" in answer.content.decode()


@pytest.mark.parametrize("key", ["priorityClassName", "priority_class"])
def test_a_class_of_the_cluster_is_no_word_of_yaml(omar, bounded, key):
    text = f"tenant: nlp\nname: urgent\n{key}: system-node-critical\n"

    answer = omar.post("/jobs/new/", {"yaml": text, "once": "1"})

    assert (answer.status_code, Job.objects.filter(name="urgent").exists()) == (422, False)


def test_a_priority_is_not_patched(omar, bounded):
    made = omar.post(API, BODY | {"priority": "fifty"}, content_type="application/json").json()

    answer = omar.patch(
        f"{API}/{made['id']}", {"priority": "ninety"}, content_type="application/json"
    )

    assert answer.status_code == 405
    assert Job.objects.get(name="urgent").priority == 50


def test_a_copy_is_checked_again(omar, bounded):
    """The pattern was submitted when its tenant might still use its priority."""
    job = bounded.jobs["moe-128-experts"]
    form = omar.get(f"/jobs/new/?from={job.public_id}").context["form"]
    values = {name: form[name].value() for name in form.fields}

    answer = omar.post("/jobs/new/", {n: v for n, v in values.items() if v is not None})

    assert (job.priority, answer.status_code) == (200, 422)
    assert list(answer.context["form"].errors) == ["priority"]


# C35: files with formulas, and rows lost between pages


NAMES = ('=HYPERLINK("http://x","y")', "+1+1", "@SUM(A1)", "-2+3", "\ttab", "<script>alert(1)")


@pytest.fixture
def many(scene):
    """250 jobs of one and the same second."""
    at = scene.jobs["moe-128-experts"].submitted_at
    for number in range(250):
        name = NAMES[number % len(NAMES)]
        JobFactory(
            tenant=scene.language,
            owner=scene.omar,
            cluster=scene.cluster,
            name=name,
            submitted_at=at,
            external_id=f"many-{number}",
        )
    return set(
        Job.objects.filter(external_id__startswith="many").values_list("public_id", flat=True)
    )


@pytest.mark.parametrize("order", ["submitted_at", "-submitted_at", "name"])
def test_walking_all_pages_gives_each_job_once_while_others_arrive(omar, scene, many, order):
    walked, cursor = [], None
    while True:
        asked = {"limit": 50, "order": order} | ({"cursor": cursor} if cursor else {})
        page = omar.get(API, asked).json()
        walked += [job["id"] for job in page["items"] if job["id"] in many]
        JobFactory(tenant=scene.language, owner=scene.omar, cluster=scene.cluster)
        cursor = page["next"]
        if cursor is None:
            break

    assert len(walked) == len(many)
    assert set(walked) == many


def test_a_file_has_each_job_once_and_no_text_that_would_be_computed(omar, many):
    text = omar.get("/jobs.csv").content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))

    ids = [row["id"] for row in rows if row["id"] in many]
    assert len(ids) == len(many)
    assert [
        cell for row in rows for cell in row.values() if cell.startswith(tuple("=+-@\t\r"))
    ] == []


def test_names_are_text_on_pages(omar, many):
    page = omar.get("/jobs/?q=<script>").content.decode()

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_what_is_true_of_a_membership_is_true_of_the_world(world):
    """The cases above have something to lose: a member of the tenant sees the job."""
    job = world.submit()
    viewer = Client()
    viewer.force_login(MembershipFactory(tenant=job.tenant, role=Role.VIEWER).user)

    assert viewer.get(f"/jobs/{job.public_id}/").status_code == 200
    assert job.state == JobState.QUEUED
