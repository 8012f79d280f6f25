import json
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from portal.core.api.idempotency import ABANDONED_AFTER, KEPT_FOR
from portal.core.models import IdempotencyKey
from scheduling.models import Job
from tenants.models import Role
from tests.factories import ClusterFactory, MembershipFactory, PriorityClassFactory
from topology.models import Cluster

JOBS = "/api/v1/jobs"
NO_WISHES = {
    "on_hold": False,
    "limit_end_at": None,
    "warned_at": None,
    "topology": {"required": "", "preferred": "", "patience_seconds": None, "island": False},
    "after": [],
    "service_class": "training",
    "standby": False,
    "not_before": None,
    "failed_starts": 0,
    "start_again_at": None,
    "grace_seconds": None,
    "checkpoint_at": None,
    "saved_seconds": 0,
    "preempted_count": 0,
    "min_total": None,
}

EVERYTHING = {
    "cluster": "main",
    "members": 2,
    "gpus_per_member": 8,
    "cpu_milli": 4000,
    "memory_mib": 65536,
    "gpu": {"model": "h100"},
    "walltime_seconds": 86400,
    "priority": "high",
    "preemptible": False,
    "image": "train:1",
    "command": ["python", "-c", " print(1)"],
    "environment": {"EMPTY": ""},
    "annotations": {"team/run": "7"},
}


@pytest.fixture
def asked():
    """The least that makes a job."""
    return {"tenant": "vision", "name": "bert"}


def errors_of(answer):
    return [(each["pointer"], each["code"]) for each in answer.json()["errors"]]


def test_a_flat_form_becomes_a_job_of_one_group(api, cluster, asked, sent):
    PriorityClassFactory(name="high", value=100)
    form = asked | EVERYTHING

    answer = api.post(JOBS, form, format="json")

    body = answer.json()
    job = Job.objects.get()
    assert answer.status_code == 201
    assert answer["Location"] == f"http://testserver{JOBS}/{job.public_id}"
    assert answer["ETag"] == api.get(f"{JOBS}/{job.public_id}")["ETag"]
    assert body == api.get(f"{JOBS}/{job.public_id}").json()
    submitted_at = body.pop("submitted_at")
    assert timezone.now() - timezone.datetime.fromisoformat(submitted_at) < timedelta(minutes=1)
    assert body == {
        "id": job.public_id,
        "name": "bert",
        "tenant": "vision",
        "cluster": "main",
        "owner": "ada",
        "state": "queued",
        "reason": {
            "code": "not_evaluated",
            "text": "It has not been looked at yet; the next cycle will.",
        },
        "version": 0,
        "priority": "high",
        "priority_value": 100,
        "preemptible": False,
        "min_gpus": 16,
        "groups": [
            {
                "name": "main",
                "min_member": 2,
                "max_member": 2,
                "gpus_per_member": 8,
                "slice_profile": "",
                "slices_per_member": 0,
                "shares_per_member": 0,
                "gpu_milli": 0,
                "gpu_mib": 0,
                "cpu_milli": 4000,
                "memory_mib": 65536,
            }
        ],
        "flavors": ["h100-sxm"],
        "array": None,
        "walltime_seconds": 86400,
        "external_id": "",
        "started_at": None,
        "ended_at": None,
        "image": "train:1",
        "command": ["python", "-c", " print(1)"],
        "environment": {"EMPTY": ""},
        "annotations": {"team/run": "7"},
        **NO_WISHES,
    }


def test_the_one_cluster_need_not_be_named(api, cluster, asked):
    answer = api.post(JOBS, asked, format="json")

    assert (answer.status_code, answer.json()["cluster"]) == (201, "main")


def test_one_of_two_clusters_must_be_named(api, cluster, asked):
    ClusterFactory()

    answer = api.post(JOBS, asked, format="json")

    assert (answer.status_code, errors_of(answer)) == (400, [("/cluster", "required")])


def test_groups_become_groups_in_their_order(api, cluster, asked):
    groups = [
        {"name": "actor", "members": 2, "gpus_per_member": 1},
        {"name": "learner", "min_member": 1, "max_member": 4, "gpus_per_member": 8},
    ]

    body = api.post(JOBS, asked | {"groups": groups}, format="json").json()

    shapes = [
        (g["name"], g["min_member"], g["max_member"], g["gpus_per_member"]) for g in body["groups"]
    ]
    assert shapes == [("actor", 2, 2, 1), ("learner", 1, 4, 8)]


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"name": None}, 400, ("/name", "null")),
        ({"name": "x" * 81}, 400, ("/name", "max_length")),
        ({"walltime": 60}, 400, ("/walltime", "unknown")),
        ({"tenant": "nobody"}, 400, ("/tenant", "does_not_exist")),
        ({"tenant": "a\0b"}, 400, ("/tenant", "null_characters_not_allowed")),
        ({"tenant": ["vision"]}, 400, ("/tenant", "invalid")),
        ({"cluster": "moon"}, 400, ("/cluster", "does_not_exist")),
        ({"priority": "highest"}, 400, ("/priority", "does_not_exist")),
        ({"gpu": {"model": "tpu"}}, 400, ("/gpu/model", "does_not_exist")),
        ({"gpu": {"model": "h10"}}, 400, ("/gpu/model", "does_not_exist")),
        ({"gpu": {"vendor": "x"}}, 400, ("/gpu/vendor", "unknown")),
        ({"members": "many"}, 400, ("/members", "invalid")),
        ({"members": 2**40}, 400, ("/members", "max_value")),
        ({"groups": [{"name": "a", "size": 3}]}, 400, ("/groups/0/size", "unknown")),
        ({"groups": [{"name": "a"}], "members": 2}, 400, ("/members", "contradiction")),
        ({"environment": {"A": {}}}, 400, ("/environment/A", "invalid")),
        ({"gpus_per_member": 9}, 422, ("/gpus_per_member", "gang_too_large")),
        ({"members": 0}, 422, ("/members", "refused")),
        ({"walltime_seconds": 0}, 422, ("/walltime_seconds", "refused")),
        ({"annotations": {"muster.dev/job": "x"}}, 422, ("/annotations", "refused")),
        ({"environment": {"a\0": "x"}}, 422, ("/environment", "refused")),
    ],
)
def test_what_cannot_be_is_refused_and_pointed_at(api, cluster, asked, change, status, error):
    answer = api.post(JOBS, asked | change, format="json")

    assert (answer.status_code, errors_of(answer)) == (status, [error])
    assert not Job.objects.exists()


def test_a_refusal_carries_its_numbers(api, cluster, asked):
    answer = api.post(JOBS, asked | {"gpus_per_member": 32}, format="json")

    detail = "A member may ask for 8 GPUs at most, the most that one node here has."
    body = answer.json()
    assert len(body.pop("request_id")) == 8
    assert body == {
        "limit": 8,
        "asked": 32,
        "type": "/help/errors/gang-too-large",
        "title": "Unprocessable Entity",
        "status": 422,
        "code": "gang_too_large",
        "detail": detail,
        "instance": JOBS,
        "errors": [{"pointer": "/gpus_per_member", "code": "gang_too_large", "detail": detail}],
    }


def test_a_tenant_of_others_answers_as_one_that_is_not_there(stranger, member, cluster, asked):
    theirs = stranger.post(JOBS, asked, format="json")
    missing = stranger.post(JOBS, asked | {"tenant": "nobody"}, format="json")

    assert theirs.status_code == missing.status_code == 400
    assert theirs.json()["errors"] == missing.json()["errors"]


def test_a_viewer_may_look_and_not_submit(cluster, asked):
    viewer = MembershipFactory(tenant__slug="vision", role=Role.VIEWER)
    client = APIClient()
    client.force_login(viewer.user)

    answer = client.post(JOBS, asked, format="json")

    assert client.get(JOBS).status_code == 200
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


def test_the_same_external_id_is_the_same_job(api, cluster, asked):
    form = asked | {"external_id": "philly-17"}

    first = api.post(JOBS, form, format="json")
    second = api.post(JOBS, form, format="json")

    assert second.json() == first.json()
    assert Job.objects.count() == 1


def post_once(api, form, key="k-1"):
    return api.post(JOBS, form, format="json", headers={"Idempotency-Key": key})


def test_the_same_key_gets_the_same_answer_and_one_job(api, cluster, asked):
    first = post_once(api, asked)
    second = post_once(api, asked)

    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert (second.status_code, second.json()) == (201, first.json())
    assert [second[name] for name in ("Location", "ETag")] == [
        first[name] for name in ("Location", "ETag")
    ]
    assert Job.objects.count() == 1


def test_a_key_is_one_persons(api, cluster, asked):
    other = MembershipFactory(tenant__slug="speech")
    client = APIClient()
    client.force_login(other.user)

    post_once(api, asked)
    answer = post_once(client, asked | {"tenant": "speech"})

    assert (answer.status_code, "Idempotent-Replayed" in answer) == (201, False)


def test_a_key_with_another_body_is_refused(api, cluster, asked):
    post_once(api, asked)

    answer = post_once(api, asked | {"name": "other"})

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_a_refused_request_leaves_its_key_free(api, cluster, asked):
    refused = post_once(api, asked | {"gpus_per_member": 9})
    mended = post_once(api, asked)

    assert (refused.status_code, mended.status_code) == (422, 201)


def test_a_key_is_forgotten_after_a_day(api, cluster, asked):
    first = post_once(api, asked)
    IdempotencyKey.objects.update(created_at=timezone.now() - KEPT_FOR - timedelta(seconds=1))

    second = post_once(api, asked)

    assert second.json()["id"] != first.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_of_no_use_is_refused(api, cluster, asked, key):
    answer = post_once(api, asked, key)

    assert (answer.status_code, errors_of(answer)) == (400, [("/Idempotency-Key", "invalid")])


@pytest.mark.django_db(transaction=True)
def test_a_second_request_while_the_first_runs_is_told_to_wait(api, member, cluster, asked):
    """The first has claimed its key and then waits for the cluster's row, which this test holds."""
    first = []

    def ask():
        client = APIClient()
        client.force_login(member.user)
        first.append(post_once(client, asked))
        connections.close_all()

    thread = threading.Thread(target=ask)
    with transaction.atomic():
        Cluster.objects.select_for_update().get()
        thread.start()
        wait_until(IdempotencyKey.objects.exists)
        second = post_once(api, asked)
    thread.join(timeout=20)
    third = post_once(api, asked)

    assert (second.status_code, second["Retry-After"]) == (409, "1")
    assert second.json()["code"] == "still_running"
    assert third.json() == first[0].json()
    assert Job.objects.count() == 1


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_a_key_whose_request_died_is_taken_over(api, member, cluster, asked):
    post_once(api, asked)
    Job.objects.all().delete()
    begun = timezone.now() - ABANDONED_AFTER
    IdempotencyKey.objects.update(status=None, body=None, created_at=begun)

    answer = post_once(api, asked)

    assert (answer.status_code, Job.objects.count()) == (201, 1)
    assert post_once(api, asked).json() == answer.json()


def test_a_body_that_is_not_json_is_refused(api):
    answer = api.post(JOBS, '{"name": ', content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")


@pytest.mark.parametrize("body", ["[]", "7", '"x"', "null"])
def test_a_body_of_another_kind_is_refused(api, body):
    answer = api.post(JOBS, body, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_a_body_nested_without_end_is_refused(api):
    deep = '{"groups": ' + "[" * 100_000 + "]" * 100_000 + "}"

    answer = api.post(JOBS, deep, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")


def test_a_body_beyond_the_limit_is_refused_unread(api, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    body = json.dumps({"name": "x" * 2000})

    answer = api.post(JOBS, body, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_another_content_type_is_refused(api):
    answer = api.post(JOBS, "name=bert", content_type="application/x-www-form-urlencoded")

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_details_are_in_the_callers_language(api, cluster, asked):
    answer = api.post(
        JOBS, asked | {"members": "x"}, format="json", headers={"Accept-Language": "zh-hans"}
    )

    assert answer.json()["errors"] == [
        {"pointer": "/members", "code": "invalid", "detail": "请填写合法的整数值。"}
    ]


def test_an_error_of_ours_says_nothing_of_its_cause(api, cluster, asked):
    """As when the database refuses a row that our checks let through."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE scheduling_job ADD CONSTRAINT no_bert CHECK (name <> 'bert')")
    api.raise_request_exception = False

    answer = api.post(JOBS, asked, format="json")

    body = answer.json()
    assert len(body.pop("request_id")) == 8
    assert answer["Content-Type"] == "application/problem+json"
    assert body == {
        "type": "/help/errors/server-error",
        "title": "Internal Server Error",
        "status": 500,
        "code": "server_error",
        "detail": "This is our fault, and nothing was changed. Quote the request id when you ask.",
        "instance": JOBS,
        "errors": [],
    }


@pytest.mark.parametrize(
    "devices",
    [
        {"slice_profile": "3g.20gb", "slices_per_member": 2},
        {"shares_per_member": 1},
    ],
)
def test_who_asks_for_parts_of_gpus_asks_for_no_whole_ones(api, cluster, asked, devices):
    body = api.post(JOBS, asked | devices, format="json").json()

    (group,) = body["groups"]
    nothing = {
        "slice_profile": "",
        "slices_per_member": 0,
        "shares_per_member": 0,
        "gpu_milli": 0,
        "gpu_mib": 0,
    }
    assert {name: group[name] for name in (*nothing, "gpus_per_member")} == {
        **nothing,
        **devices,
        "gpus_per_member": 0,
    }
