"""Requests for quota over REST: the same services, whole answers, and who may do what."""

from datetime import date, timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.models import Quota, QuotaRequest, Role
from tests.factories import (
    ApiTokenFactory,
    MembershipFactory,
    NodeFactory,
    QuotaGrantFactory,
    QuotaRequestFactory,
)

REQUESTS = "/api/v1/quota-requests"
TODAY = timezone.localdate()
WHY = "Pre-training of the next language model, three runs of ten days."


@pytest.fixture
def lead(db):
    return MembershipFactory(tenant__slug="vision", user__username="mei", role=Role.LEAD)


@pytest.fixture
def node(db):
    """Eight GPUs of one flavor in the only cluster."""
    return NodeFactory(flavor__name="h100-sxm", cluster__slug="main")


def signed_in(user):
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def api(lead):
    return signed_in(lead.user)


@pytest.fixture
def ops(operator):
    return signed_in(operator)


def body(**said):
    return {
        "tenant": "vision",
        "purpose": "training",
        "flavor": "h100",
        "guaranteed_gpus": 4,
        "starts_on": TODAY.isoformat(),
        "ends_on": (TODAY + timedelta(days=60)).isoformat(),
        "justification": WHY,
    } | said


@pytest.fixture
def submitted(api, node):
    """The address of a request that waits for an operator."""
    created = api.post(REQUESTS, body(), format="json")
    api.post(f"{created['Location']}/submit", {}, format="json")
    return created["Location"]


def test_a_draft_is_written_and_read_back_whole(api, node):
    created = api.post(REQUESTS, body(borrowing_gpus=2, gpu_hours=500), format="json")

    request = QuotaRequest.objects.get()
    assert created.status_code == 201
    assert created.json() == {
        "id": f"Q-{request.pk}",
        "version": 1,
        "tenant": "vision",
        "cluster": "main",
        "state": "draft",
        "purpose": "training",
        "flavor": "h100-sxm",
        "gpu_memory_mib": 0,
        "guaranteed_gpus": 4,
        "borrowing_gpus": 2,
        "gpu_hours": 500,
        "starts_on": TODAY.isoformat(),
        "ends_on": (TODAY + timedelta(days=60)).isoformat(),
        "justification": WHY,
        "plan_url": "",
        "outcome": "",
        "replaces": None,
        "requested_by": "mei",
        "created_at": created.json()["created_at"],
        "submitted_at": None,
        "grant": None,
    }
    assert api.get(created["Location"]).json() == created.json()


def test_a_request_goes_from_draft_to_quota(api, ops, submitted):
    approved = ops.post(f"{submitted}/approve", {"note": "fine"}, format="json").json()

    assert approved["state"] == "active"
    assert approved["grant"] == {
        "flavor": "h100-sxm",
        "guaranteed_gpus": 4,
        "borrowing_gpus": 0,
        "gpu_hours": None,
        "starts_on": TODAY.isoformat(),
        "ends_on": (TODAY + timedelta(days=60)).isoformat(),
        "not_renewable_because": "",
    }
    events = api.get(f"{submitted}/events").json()["items"]
    assert [(event["action"], event["to_state"], event["actor"]) for event in events] == [
        ("create", "draft", "mei"),
        ("submit", "submitted", "mei"),
        ("approve", "approved", "op"),
        ("start", "active", None),
    ]
    (quota,) = api.get("/api/v1/quotas").json()["items"]
    assert (quota["nominal_gpus"], quota["granted_gpus"]) == (4, 4)


def test_a_question_an_answer_a_counter_offer_and_its_taking(api, ops, submitted):
    ops.post(f"{submitted}/ask", {"note": "Which model?"}, format="json")
    api.post(f"{submitted}/answer", {"note": "One of 7 B."}, format="json")
    terms = {
        "flavor": "h100",
        "guaranteed_gpus": 2,
        "starts_on": TODAY.isoformat(),
        "ends_on": (TODAY + timedelta(days=30)).isoformat(),
        "note": "half",
    }
    offered = ops.post(f"{submitted}/counter", terms, format="json").json()

    taken = api.post(f"{submitted}/accept", {"version": offered["version"]}, format="json").json()

    assert (offered["state"], offered["grant"]["guaranteed_gpus"]) == ("countered", 2)
    assert (taken["state"], taken["guaranteed_gpus"]) == ("active", 4)
    assert Quota.objects.get().nominal == 2


def test_an_offer_is_declined(api, ops, submitted):
    terms = body(guaranteed_gpus=1, note="less")
    for name in ("tenant", "purpose", "justification"):
        del terms[name]
    ops.post(f"{submitted}/counter", terms, format="json")

    answer = api.post(f"{submitted}/decline", {"note": "too few"}, format="json")

    assert answer.json()["state"] == "declined"


def test_more_than_there_is_is_refused_with_numbers(api, ops, node):
    created = api.post(REQUESTS, body(guaranteed_gpus=9), format="json")
    api.post(f"{created['Location']}/submit", {}, format="json")

    answer = ops.post(f"{created['Location']}/approve", {}, format="json")

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "over_committed")
    assert (problem["free"], problem["asked"]) == (8, 9)


def test_a_version_that_is_no_more_is_a_conflict(api, ops, submitted):
    version = api.get(submitted).json()["version"]
    ops.post(f"{submitted}/ask", {"note": "Which?"}, format="json")

    answer = ops.post(f"{submitted}/reject", {"note": "no", "version": version}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_an_approval_with_a_key_is_given_once(ops, submitted):
    key = {"HTTP_IDEMPOTENCY_KEY": "once"}

    first = ops.post(f"{submitted}/approve", {}, format="json", **key)
    again = ops.post(f"{submitted}/approve", {}, format="json", **key)

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"


def test_a_draft_is_changed_in_part_and_nothing_else_is(api, ops, node):
    where = api.post(REQUESTS, body(), format="json")["Location"]

    changed = api.patch(where, {"guaranteed_gpus": 3}, format="json")
    api.post(f"{where}/submit", {}, format="json")
    late = api.patch(where, {"guaranteed_gpus": 2}, format="json")

    assert (changed.status_code, changed.json()["guaranteed_gpus"]) == (200, 3)
    assert changed.json()["justification"] == WHY
    assert late.status_code == 409


def test_deleting_withdraws_and_the_request_stays_to_be_read(api, submitted):
    assert api.delete(submitted).status_code == 204
    assert api.get(submitted).json()["state"] == "withdrawn"
    assert api.delete(submitted).status_code == 409


def test_gpus_are_handed_back_of_a_request_or_of_a_quota(api, ops, submitted):
    ops.post(f"{submitted}/approve", {}, format="json")
    (quota,) = api.get("/api/v1/quotas").json()["items"]
    whole = f"/api/v1/quotas/{quota['id']}/hand-back"

    api.post(f"{submitted}/hand-back", {"gpus": 1}, format="json")
    too_many = api.post(whole, {"gpus": 4}, format="json")
    left = Quota.objects.get().nominal
    done = api.post(whole, {"gpus": 3}, format="json")

    assert (too_many.status_code, left, done.status_code) == (422, 3, 204)
    assert api.get(submitted).json()["state"] == "closed"
    assert not Quota.objects.exists()


def test_a_renewal_names_what_it_replaces(api, ops, submitted):
    ops.post(f"{submitted}/approve", {}, format="json")
    old = api.get(submitted).json()["id"]
    later = (TODAY + timedelta(days=90)).isoformat()

    renewal = api.post(
        REQUESTS, body(replaces=old, ends_on=later, outcome="Two papers."), format="json"
    )

    assert renewal.json()["replaces"] == old


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"flavor": "b300"}, "/flavor"),
        ({"guaranteed_gpus": -1}, "/guaranteed_gpus"),
        ({"purpose": "fun"}, "/purpose"),
        ({"starts_on": "soon"}, "/starts_on"),
        ({"replaces": "Q-999999"}, "/replaces"),
        ({"replaces": "7"}, "/replaces"),
        ({"tenant": "nobodys"}, "/tenant"),
        ({"gpus": 4}, "/gpus"),
        ({"gpu_memory_mib": 40_000}, "/gpu_memory_mib"),
        ({"ends_on": "2020-01-01"}, "/ends_on"),
    ],
)
def test_what_is_wrong_is_pointed_at(api, node, said, pointer):
    answer = api.post(REQUESTS, body(**said), format="json")

    assert answer.status_code in {400, 422}
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert not QuotaRequest.objects.exists()


def test_a_list_is_narrowed_by_state_and_tenant(api, lead, operator):
    kept = QuotaRequestFactory(tenant=lead.tenant, state="active")
    QuotaRequestFactory(tenant=lead.tenant, state="draft")
    QuotaRequestFactory(state="active")

    mine = api.get(REQUESTS, {"state": "active", "tenant": "vision"}).json()

    assert [item["id"] for item in mine["items"]] == [kept.public_id]
    assert api.get(REQUESTS, {"tenant": "unknown"}).json()["items"] == []


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_any_number(api, lead, count, django_assert_num_queries):
    for _each in range(count):
        QuotaGrantFactory(request__tenant=lead.tenant)

    with django_assert_num_queries(4):  # session, user, count, rows
        body = api.get(REQUESTS).json()

    assert len(body["items"]) == count


@pytest.mark.parametrize("verb", ["approve", "counter", "ask", "reject", "revoke"])
def test_a_lead_decides_nothing(api, lead, node, verb):
    request = QuotaRequestFactory(tenant=lead.tenant, flavor=node.flavor, state="submitted")
    terms = {"flavor": "h100", "guaranteed_gpus": 1, "note": "yes"}
    terms |= {"starts_on": date(2026, 1, 1).isoformat(), "ends_on": date(2026, 2, 1).isoformat()}
    sent = terms if verb == "counter" else {"note": "yes"}

    answer = api.post(f"{REQUESTS}/{request.public_id}/{verb}", sent, format="json")

    assert answer.status_code == 403


def test_a_researcher_asks_for_nothing(lead, node):
    researcher = MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER)

    answer = signed_in(researcher.user).post(REQUESTS, body(), format="json")

    assert answer.status_code == 403


def test_a_token_needs_the_scope(lead, node):
    client = APIClient()
    token = ApiTokenFactory(user=lead.user, scopes=["quota-requests:read"])
    client.force_authenticate(user=lead.user, token=token)

    assert client.get(REQUESTS).status_code == 200
    assert client.post(REQUESTS, body(), format="json").status_code == 403
