"""The pages of one job besides its overview: what it wrote, what it went through, what it asked."""

from types import SimpleNamespace

import pytest
import yaml
from django.urls import reverse

from portal.core.errors import ClusterAway
from scheduling.models import Job
from scheduling.reports.member_log import MOST_BYTES, WHOLE_BYTES
from tenants.models import Role
from tests.factories import MembershipFactory, UserFactory
from topology.kube.gateway import NotStarted, NotThere, RefusedByCluster

GONE = (
    "Its pod is no longer in the cluster, and its log went with it. Logs are kept for 3 days after "
    "the end of a job, and none of an attempt that was stopped."
)
STAMP = "2026-03-02T12:00:0{}.000000000Z "


class Pod:
    """The cluster's side of a log: what the pod wrote, or what the cluster answers instead."""

    def __init__(self, *lines, refusal=None):
        self.lines, self.refusal, self.asked = lines, refusal, []

    def log(self, asked):
        self.asked.append(asked)
        if self.refusal:
            raise self.refusal
        lines = [
            (STAMP.format(number % 10) if asked.stamped else "").encode() + line
            for number, line in enumerate(self.lines)
        ]
        return b"".join(line + b"\n" for line in lines[-asked.lines :])[: asked.most]


@pytest.fixture
def writes(monkeypatch):
    """A function that has every pod of the cluster write these lines."""

    def having(*lines, **how):
        pod = Pod(*lines, **how)
        monkeypatch.setattr("scheduling.web.logs.gateway_to", lambda _cluster: pod)
        return pod

    return having


@pytest.fixture
def running(scene):
    return scene.jobs["llama-70b-pretrain"]


def address(job, **asked):
    return reverse("job-logs", args=[job.public_id], query=asked)


def shown(response):
    """The lines of the log on a page, without what colours them; or why there are none."""
    text = response.content.decode()
    return SimpleNamespace(
        lines=response.context["log"].lines,
        silence=response.context["log"].silence,
        html=text.partition('<pre class="log"')[2].partition(">")[2].partition("</pre>")[0],
    )


def test_the_end_of_the_first_members_log_is_shown(as_omar, writes, running):
    pod = writes(b"one", b"two")

    page = shown(as_omar.get(address(running)))

    assert [line.text for line in page.lines] == ["one", "two"]
    assert [(ask.pod_name, ask.namespace, ask.lines, ask.most) for ask in pod.asked] == [
        (f"{running.public_id}-main-0", "muster-nlp", 200, MOST_BYTES)
    ]


def test_another_member_is_chosen_by_its_name(as_omar, writes, running):
    pod = writes(b"one")

    as_omar.get(address(running, member="main-1"))

    assert [ask.pod_name for ask in pod.asked] == [f"{running.public_id}-main-1"]


def test_what_a_program_writes_is_text_and_colours_are_marks(as_omar, writes, running):
    writes(b"<script>alert(1)</script>", b"\x1b[1;31mred\x1b[0m \x1b[2Kplain")

    html = shown(as_omar.get(address(running))).html

    assert html == (
        '<span class="">&lt;script&gt;alert(1)&lt;/script&gt;</span>\n'
        '<span class="ansi-b ansi-31">red</span><span class=""> </span><span class="">plain</span>'
    )


def test_lines_that_contain_a_text_are_found_and_marked(as_omar, writes, running):
    writes(b"loss 3", b"saved", b"LOSS 2")

    html = shown(as_omar.get(address(running, q="loss"))).html

    assert html == "<mark>loss</mark> 3\n<mark>LOSS</mark> 2"


def test_a_text_that_is_nowhere_is_said_to_be(as_omar, writes, running):
    writes(b"loss 3", b"saved")

    page = shown(as_omar.get(address(running, q="accuracy")))

    assert (page.lines, page.silence) == ((), "None of the last 2 lines contains this.")


def test_times_are_those_of_the_readers_zone(as_omar, writes, running):
    writes(b"one")
    as_omar.cookies["zone"] = "Asia/Shanghai"

    html = shown(as_omar.get(address(running, times="1"))).html

    assert html.startswith("<time>03-02 20:00:00</time>")


def test_a_log_that_is_too_long_is_asked_for_again_with_fewer_lines(as_omar, writes, running):
    pod = writes(*[b"x" * (MOST_BYTES // 30)] * 200)

    response = as_omar.get(address(running))

    assert [ask.lines for ask in pod.asked] == [200, 20]
    assert len(shown(response).lines) == 20
    assert response.context["log"].is_cut


def test_what_is_no_text_is_not_shown(as_omar, writes, running):
    writes(bytes(range(256)) * 4)

    assert shown(as_omar.get(address(running))).silence == (
        "What it wrote is no text: download it to look at it."
    )


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (NotStarted("ContainerCreating"), "Its container is being started: ContainerCreating"),
        (
            NotThere("gone"),
            GONE,
        ),
        (
            ClusterAway("no answer"),
            "The cluster does not answer just now. What was written is not lost.",
        ),
        (
            RefusedByCluster("forbidden"),
            "The cluster does not let Muster read logs; tell an operator: forbidden",
        ),
    ],
)
def test_why_there_is_nothing_to_read_is_said(as_omar, writes, running, refusal, says):
    writes(refusal=refusal)

    response = as_omar.get(address(running))

    assert (response.status_code, shown(response).silence) == (200, says)


def test_a_cluster_that_nothing_leads_to_is_said_to_be_away(as_omar, running):
    type(running.cluster).objects.update(kubeconfig_path="/nowhere/kubeconfig")

    response = as_omar.get(address(running))

    assert (response.status_code, shown(response).silence) == (
        200,
        "The cluster does not answer just now. What was written is not lost.",
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fresh-submission", "Nothing runs yet: the log begins when the job starts."),
        ("typo-run", "It never ran, so nothing was written."),
    ],
)
def test_a_job_that_never_ran_has_no_log(as_omar, writes, scene, name, says):
    Job.objects.filter(name="typo-run").update(attempt=0)
    writes()

    assert shown(as_omar.get(address(scene.jobs[name]))).silence == says


def test_a_log_is_followed_while_its_member_runs(as_omar, writes, running):
    writes(b"one")
    first = as_omar.get(address(running))

    again = as_omar.get(
        address(running), headers={"HX-Request": "true", "If-None-Match": first["ETag"]}
    )
    writes(b"one", b"two")
    later = as_omar.get(
        address(running), headers={"HX-Request": "true", "If-None-Match": first["ETag"]}
    )

    assert (again.status_code, later.status_code) == (304, 200)
    assert 'hx-trigger="every' in later.content.decode()


def test_a_log_holds_still_when_asked_to(as_omar, writes, running):
    writes(b"one")

    assert "hx-trigger" not in as_omar.get(address(running, follow="0")).content.decode()


def test_a_log_is_downloaded_as_it_was_written(as_omar, writes, running):
    pod = writes(b"\x1b[31mred", b"\xff\xfe")

    response = as_omar.get(reverse("job-log-file", args=[running.public_id]))

    assert response.content == b"\x1b[31mred\n\xff\xfe\n"
    assert response["Content-Disposition"] == (
        f'attachment; filename="{running.public_id}-main-0.log"'
    )
    assert [(ask.most, ask.stamped) for ask in pod.asked] == [(WHOLE_BYTES, False)]


def test_logs_are_for_those_who_may_submit_jobs(client, writes, scene, running):
    viewer = UserFactory()
    MembershipFactory(user=viewer, tenant=scene.language, role=Role.VIEWER)
    client.force_login(viewer)
    pod = writes(b"secret")

    answers = [
        client.get(address(running)),
        client.get(reverse("job-log-file", args=[running.public_id])),
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert pod.asked == []
    assert "/logs/" not in client.get(f"/jobs/{running.public_id}/").content.decode()


def test_events_come_with_who_and_why_the_last_first(as_omar, scene):
    job = scene.jobs["typo-run"]

    events = as_omar.get(f"/jobs/{job.public_id}/events/").context["events"]

    assert [(event.to_state, event.reason, event.actor) for event in events] == [
        ("cancelled", "", None),
        ("starting", "placed", None),
        ("queued", "submitted", scene.omar),
    ]


def test_a_spec_is_what_the_api_takes(client, scene):
    client.force_login(scene.omar)
    job = scene.jobs["moe-128-experts"]

    spec = yaml.safe_load(client.get(f"/jobs/{job.public_id}/spec/").context["spec"])
    made = client.post("/api/v1/jobs", spec, content_type="application/json")

    assert made.status_code == 201
    assert (spec["members"], spec["gpus_per_member"], spec["priority"]) == (4, 8, "high")
