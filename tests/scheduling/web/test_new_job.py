"""Submitting a job in the browser."""

import pytest

from scheduling.models import Job, JobGroup
from tenants.models import Role
from tests.factories import MembershipFactory, MigInstanceFactory
from topology.models import Gpu


def filled_in(scene, **changes):
    form = {
        "once": "0123456789abcdef",
        "name": "my first job",
        "tenant": "nlp",
        "cluster": scene.cluster.slug,
        "members": "2",
        "gpus_per_member": "4",
        "flavor": str(scene.flavors[1].pk),
        "image": "busybox",
        "command": "python train.py --note 'two words'",
        "environment": "A=1\nB=x=y\n\n",
        "max_hours": "1.5",
        "priority": "",
        "run_seconds": "90",
    }
    return form | changes


def test_a_form_becomes_a_job_in_the_queue(as_omar, scene):
    response = as_omar.post("/jobs/new/", filled_in(scene))

    job = Job.objects.get(name="my first job")
    group = JobGroup.objects.get(job=job)
    assert response["Location"] == f"/jobs/{job.public_id}/"
    assert (job.state, job.tenant, job.owner) == ("queued", scene.language, scene.omar)
    assert (group.max_member, group.gpus_per_member) == (2, 4)
    assert job.command == ["python", "train.py", "--note", "two words"]
    assert job.environment == {"A": "1", "B": "x=y"}
    assert job.walltime_seconds == 5400
    assert job.annotations == {"simcluster.muster.dev/run-seconds": "90"}
    assert [choice.flavor for choice in job.accepted.all()] == [scene.flavors[1]]


def test_a_form_sent_twice_is_one_job(as_omar, scene):
    first = as_omar.post("/jobs/new/", filled_in(scene))
    second = as_omar.post("/jobs/new/", filled_in(scene))

    assert first["Location"] == second["Location"]
    assert Job.objects.filter(name="my first job").count() == 1


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": ""}),
        ("members", {"members": "0"}),
        ("gpus_per_member", {"gpus_per_member": "9"}),  # no node has more than 8
        ("command", {"command": "echo 'open"}),
        ("environment", {"environment": "1X=2"}),
        ("environment", {"environment": "no equals sign"}),
        ("max_hours", {"max_hours": "soon"}),
        ("flavor", {"flavor": "0"}),
        ("tenant", {"tenant": "vision"}),  # another's, like one that does not exist
        ("tenant", {"tenant": "nobody"}),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(as_omar, scene, field, changes):
    response = as_omar.post("/jobs/new/", filled_in(scene, **changes))

    page = response.content.decode()
    assert response.status_code == 422
    assert list(response.context["form"].errors) == [field]
    assert f'<a href="#id_{field}">' in page
    assert f'id="id_{field}_error"' in page
    assert not Job.objects.filter(name="my first job").exists()


def test_what_was_typed_is_still_there_after_an_error(as_omar, scene):
    page = as_omar.post("/jobs/new/", filled_in(scene, members="0")).content.decode()

    assert 'value="my first job"' in page
    assert "--note &#x27;two words&#x27;" in page


def test_the_cluster_is_not_asked_for_while_there_is_one(as_omar):
    page = as_omar.get("/jobs/new/").content.decode()

    assert '<input type="hidden" name="cluster" value="demo"' in page


def test_a_tenant_can_be_proposed_by_the_address(as_omar):
    page = as_omar.get("/jobs/new/?tenant=nlp").content.decode()

    assert '<option value="nlp" selected>' in page


def test_nobody_without_a_role_is_offered_a_tenant(client, scene):
    client.force_login(scene.newcomer)

    page = client.get("/jobs/new/").content.decode()

    assert "You may not submit jobs yet" in page
    assert 'id="job-form"' not in page
    assert '<option value="nlp"' not in page


def test_a_copy_of_a_job_is_proposed_whole(as_omar, scene):
    as_omar.post("/jobs/new/", filled_in(scene))
    job = Job.objects.get(name="my first job")

    form = as_omar.get(f"/jobs/new/?from={job.public_id}").context["form"]

    fields = set(filled_in(scene)) - {"once", "priority"}
    wanted = filled_in(scene, environment="A=1\nB=x=y")
    assert {name: str(form[name].value()) for name in fields} == {
        name: wanted[name] for name in fields
    }


def test_a_copy_says_what_the_form_cannot_carry_over(as_omar, scene):
    job = scene.jobs["llama-70b-pretrain"]
    JobGroup.objects.filter(job=job).update(cpu_milli=4000)
    job.needs_island = True
    job.save()

    shown = as_omar.get(f"/jobs/new/?from={job.public_id}")

    assert shown.context["pattern"].left_out == ("CPU and memory", "wishes about GPUs and nodes")
    assert "CPU and memory, wishes about GPUs and nodes." in shown.content.decode()


def test_a_job_of_others_is_no_pattern(as_omar, scene):
    hidden = Job.objects.exclude(tenant=scene.language).first()

    assert as_omar.get(f"/jobs/new/?from={hidden.public_id}").status_code == 404


def test_the_page_of_a_job_leads_to_its_copy_for_those_who_may_submit(client, as_omar, scene):
    job = scene.jobs["llama-70b-pretrain"]
    link = f'href="/jobs/new/?from={job.public_id}"'
    viewer = MembershipFactory(tenant=scene.language, role=Role.VIEWER).user

    shown_to_omar = as_omar.get(f"/jobs/{job.public_id}/").content.decode()
    client.force_login(viewer)
    shown_to_viewer = client.get(f"/jobs/{job.public_id}/").content.decode()

    assert link in shown_to_omar
    assert link not in shown_to_viewer


def test_a_job_can_be_tried_without_being_submitted(as_omar, scene):
    answer = as_omar.post("/jobs/new/", filled_in(scene, **{"try": "1"}))

    page = answer.content.decode()
    assert answer.status_code == 200
    assert 'id="trial"' in page
    assert "nothing was submitted" in page
    assert 'value="my first job"' in page
    assert not Job.objects.filter(name="my first job").exists()


def test_what_a_trial_refuses_is_said_beside_its_field(as_omar, scene):
    answer = as_omar.post("/jobs/new/", filled_in(scene, gpus_per_member="9", **{"try": "1"}))

    assert (answer.status_code, answer.context["trial"]) == (422, None)
    assert list(answer.context["form"].errors) == ["gpus_per_member"]


def cut_and_share(scene):
    """Let one board have a slice of 3g.20gb, and another one four replicas."""
    first, second = scene.cluster.nodes.first().gpus.all()[:2]
    Gpu.objects.filter(pk=first.pk).update(mode="mig")
    Gpu.objects.filter(pk=second.pk).update(mode="time_slicing", replicas=4)
    MigInstanceFactory(gpu=first, profile="3g.20gb")


@pytest.mark.parametrize(
    ("device", "count", "expected"),
    [
        ("", "2", (2, "", 0, 0)),
        ("3g.20gb", "2", (0, "3g.20gb", 2, 0)),
        ("share", "1", (0, "", 0, 1)),
        ("share", "0", (0, "", 0, 0)),
    ],
)
def test_slices_and_shares_are_asked_for_where_there_are_any(
    as_omar, scene, device, count, expected
):
    cut_and_share(scene)

    as_omar.post("/jobs/new/", filled_in(scene, device=device, gpus_per_member=count))

    job = Job.objects.get(name="my first job")
    group = JobGroup.objects.get(job=job)
    asked = (
        group.gpus_per_member,
        group.slice_profile,
        group.slices_per_member,
        group.shares_per_member,
    )
    assert asked == expected
    copied = as_omar.get(f"/jobs/new/?from={job.public_id}").context["form"].initial
    assert (copied["device"], str(copied["gpus_per_member"])) == (
        device if int(count) else "",
        count,
    )


def test_where_every_gpu_is_whole_nobody_is_asked(as_omar):
    assert "device" not in as_omar.get("/jobs/new/").context["form"].fields
