"""A new job as a form, as YAML and as a call by curl: the same job whichever way."""

import json
import shlex

import pytest
import yaml

from scheduling.models import Job
from scheduling.web.templates import TEMPLATES
from tests.scheduling.web.test_new_job import cut_and_share, filled_in

TEXT = """
tenant: nlp
name: from text
members: 2
gpus_per_member: 4
gpu: {model: a100-80gb}
walltime_seconds: 5400
priority: high
image: busybox
command: [python, train.py, two words]
environment: {A: 1}
"""


NO_YAML = "This is no YAML: look at line 1."
# A page of text that is as large as all disks as soon as anybody writes it out.
BOMB = (
    "[&a [x,x], &b [*a,*a], "
    + ", ".join(
        f"&{chr(own)} [*{chr(own - 1)},*{chr(own - 1)}]" for own in range(ord("c"), ord("z"))
    )
    + "]"
)


def seen(client, **sent):
    return client.post("/jobs/new/", sent).context


def test_what_is_in_the_form_is_seen_as_yaml(as_omar, scene):
    found = yaml.safe_load(seen(as_omar, **filled_in(scene), view="yaml")["yaml"])

    assert found == {
        "tenant": "nlp",
        "cluster": "demo",
        "name": "my first job",
        "members": 2,
        "gpus_per_member": 4,
        "gpu": {"model": "A100-80GB"},
        "walltime_seconds": 5400,
        "image": "busybox",
        "command": ["python", "train.py", "--note", "two words"],
        "environment": {"A": "1", "B": "x=y"},
        "annotations": {"simcluster.muster.dev/run-seconds": "90"},
    }


def test_what_is_in_the_yaml_is_seen_in_the_form(as_omar, scene):
    form = seen(as_omar, yaml=TEXT, once="1", view="form")["form"]

    values = {name: form[name].value() for name in form.fields}
    assert not form.is_bound
    assert (values["name"], values["members"], values["max_hours"]) == ("from text", "2", "1.5")
    assert values["flavor"] == scene.flavors[1].pk
    assert (values["command"], values["environment"]) == ("python train.py 'two words'", "A=1")


def test_the_call_by_curl_submits_the_same(as_omar, scene):
    context = seen(as_omar, yaml=TEXT, once="1", view="curl")
    words = shlex.split(context["curl"].replace("\\\n", " "))
    body = json.loads(words[words.index("-d") + 1])

    made = as_omar.post("/api/v1/jobs", body, content_type="application/json")

    assert (words[:2], made.status_code) == (["curl", "http://testserver/api/v1/jobs"], 201)
    assert yaml.safe_load(context["yaml"]) == body


def test_a_way_that_is_only_looked_at_submits_nothing(as_omar, scene):
    before = Job.objects.count()

    seen(as_omar, **filled_in(scene), view="yaml")
    seen(as_omar, yaml=TEXT, once="1", view="curl")

    assert Job.objects.count() == before


def test_a_job_is_submitted_as_yaml(as_omar, scene):
    response = as_omar.post("/jobs/new/", {"yaml": TEXT, "once": "1"})

    job = Job.objects.get(name="from text")
    assert response["Location"] == f"/jobs/{job.public_id}/"
    assert (job.priority, job.walltime_seconds, job.environment) == (200, 5400, {"A": "1"})
    assert job.command == ["python", "train.py", "two words"]


def test_a_job_is_tried_as_yaml(as_omar, scene):
    context = seen(as_omar, yaml=TEXT, once="1", **{"try": "1"})

    assert (context["trial"] is not None, context["view"]) == (True, "yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "This is no YAML: look at line 1."),
        ("just words", "Write names and values, as in name: train."),
        ("1: 2", "The form has no field for: 1. Submit this by the API instead."),
        ("members: [1]", "This says nothing that is understood: members."),
        ("command: 3", "This says nothing that is understood: command."),
        ("environment: [A]", "This says nothing that is understood: environment."),
        ("gpu: h100", "This says nothing that is understood: gpu."),
        ("gpu: {memory_mib: 40}", "This says nothing that is understood: gpu."),
        ("annotations: {other: 1}", "This says nothing that is understood: annotations."),
        ("walltime_seconds: soon", "This says nothing that is understood: walltime_seconds."),
        (
            "priorityClassName: system-node-critical",
            "The form has no field for: priorityClassName. Submit this by the API instead.",
        ),
        ("name: " + "x" * 64_000, "This is too long for a job."),
        ("a: &a [*a]", NO_YAML),
        (f"command: [{BOMB}]", NO_YAML),
        (f"shares_per_member: {BOMB}", NO_YAML),
        ("members: 0x" + "f" * 5000, NO_YAML),
        ("walltime_seconds: 0x" + "f" * 500, NO_YAML),
        ('gpu: {model: "a\\0"}', NO_YAML),
        ('priority: "a\\0"', NO_YAML),
        ('name: "\\ud800"', NO_YAML),
        ("name: !!bool x", NO_YAML),
        ("name: !!int ''", NO_YAML),
        ("name: !!timestamp x", NO_YAML),
    ],
)
def test_text_that_is_no_job_is_refused_and_stays_to_be_mended(as_omar, scene, text, says):
    response = as_omar.post("/jobs/new/", {"yaml": text, "once": "1"})

    assert (response.status_code, response.context["bad"]) == (422, says)
    assert response.context["yaml"] == text


@pytest.mark.parametrize("hours", ["1e308", "nan", "inf", "soon"])
def test_hours_that_are_no_number_are_left_out_of_the_text(as_omar, scene, hours):
    found = yaml.safe_load(
        seen(as_omar, **filled_in(scene) | {"max_hours": hours}, view="yaml")["yaml"]
    )

    assert "walltime_seconds" not in found


@pytest.mark.parametrize("hours", [".inf", ".nan", "1.0e+308"])
def test_endless_hours_are_refused_by_the_form(as_omar, scene, hours):
    text = TEXT.replace("5400", hours)

    looked_at = as_omar.post("/jobs/new/", {"yaml": text, "once": "1", "view": "form"})
    response = as_omar.post("/jobs/new/", {"yaml": text, "once": "1"})

    assert (looked_at.status_code, response.status_code) == (200, 422)
    assert "max_hours" in response.context["form"].errors


def test_what_a_rule_refuses_is_said_above_the_text(as_omar, scene):
    text = TEXT.replace("gpus_per_member: 4", "gpus_per_member: 9")

    response = as_omar.post("/jobs/new/", {"yaml": text, "once": "1"})

    assert response.status_code == 422
    assert "gpus_per_member" in response.context["form"].errors
    assert "GPUs per member:" in response.content.decode()


@pytest.mark.parametrize("slug", TEMPLATES)
def test_a_job_begun_with_a_template_is_submitted_as_it_is(as_omar, scene, slug):
    page = as_omar.get(f"/jobs/new/?template={slug}").context
    form = page["form"]
    values = {name: form[name].value() for name in form.fields} | {"tenant": "nlp"}

    as_omar.post("/jobs/new/", {n: v for n, v in values.items() if v is not None})

    job = Job.objects.order_by("pk").last()
    assert (job.name, job.state) == (TEMPLATES[slug].initial["name"], "queued")


def test_ones_last_job_is_offered_to_begin_with(as_omar, scene):
    mine = Job.objects.filter(owner=scene.omar).newest_first().first()

    assert as_omar.get("/jobs/new/").context["last"] == mine


PARTS = [
    {"slice_profile": "3g.20gb", "slices_per_member": 4},
    {"shares_per_member": 4},
]


@pytest.mark.parametrize("parts", PARTS, ids=["slices", "shares"])
def test_slices_and_shares_are_said_in_every_way(as_omar, scene, parts):
    cut_and_share(scene)
    device = parts.get("slice_profile", "share")
    names = ("gpus_per_member", "slice_profile", "slices_per_member", "shares_per_member")

    context = seen(as_omar, **filled_in(scene, device=device), view="yaml")
    form = seen(as_omar, yaml=context["yaml"], once="1", view="form")["form"]
    as_omar.post("/jobs/new/", {"yaml": context["yaml"], "once": "1"})

    spec = yaml.safe_load(context["yaml"])
    assert {name: spec[name] for name in names if name in spec} == parts
    assert (form["device"].value(), form["gpus_per_member"].value()) == (device, "4")
    again = yaml.safe_load(
        as_omar.get(f"/jobs/{Job.objects.latest('pk').public_id}/spec/").context["spec"]
    )
    assert {name: again[name] for name in names if name in again} == parts


@pytest.mark.parametrize("parts", PARTS, ids=["slices", "shares"])
def test_parts_that_nobody_has_are_not_taken_for_whole_gpus(as_omar, scene, parts):
    whole = yaml.safe_load(TEXT)
    del whole["gpus_per_member"]

    response = as_omar.post("/jobs/new/", {"yaml": yaml.safe_dump(whole | parts), "once": "1"})

    assert (response.status_code, Job.objects.filter(name="from text").count()) == (422, 0)
