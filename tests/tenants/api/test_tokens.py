from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.models import ApiToken
from tenants.services.tokens import TokenRequest, create_token
from tests.factories import ApiTokenFactory, JobFactory

TOKENS = "/api/v1/tokens"


@pytest.fixture
def api(member):
    client = APIClient()
    client.force_login(member.user)
    return client


def bearer(secret):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def with_scopes(member):
    """A client whose token has the scopes that are asked for."""

    def make(*scopes):
        now = timezone.now()
        request = TokenRequest(name="ci", scopes=scopes, expires_at=now + timedelta(days=1))
        return bearer(create_token(request, by=member.user, at=now).secret)

    return make


def test_a_token_is_made_shown_once_and_works(api, member):
    made = api.post(TOKENS, {"name": "ci", "scopes": ["jobs:read"]}, format="json")

    body = made.json()
    token = ApiToken.objects.get()
    secret = body.pop("secret")
    read = api.get(f"{TOKENS}/{token.prefix}").json()
    assert (made.status_code, made["Location"]) == (
        201,
        f"http://testserver{TOKENS}/{token.prefix}",
    )
    assert body == read
    assert secret not in str(read) + str(api.get(TOKENS).json())
    assert token.expires_at - token.created_at <= timedelta(days=365)
    assert bearer(secret).get("/api/v1/jobs").status_code == 200


def test_a_list_holds_the_callers_tokens_alone(api, member):
    mine = ApiTokenFactory(user=member.user, name="mine", scopes=["jobs:read"])
    theirs = ApiTokenFactory()

    body = api.get(TOKENS).json()

    assert body == {
        "items": [
            {
                "id": mine.prefix,
                "name": "mine",
                "scopes": ["jobs:read"],
                "created_at": "2026-01-01T00:00:00Z",
                "expires_at": "2027-01-01T00:00:00Z",
                "last_used_at": None,
                "revoked_at": None,
            }
        ],
        "next": None,
        "count": {"value": 1, "exact": True},
    }
    assert api.get(f"{TOKENS}/{theirs.prefix}").status_code == 404
    assert api.delete(f"{TOKENS}/{theirs.prefix}").status_code == 404


def test_a_revoked_token_opens_nothing(api):
    secret = api.post(TOKENS, {"name": "ci", "scopes": ["jobs:read"]}, format="json").json()[
        "secret"
    ]

    answer = api.delete(f"{TOKENS}/{secret.split('_')[1]}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert bearer(secret).get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"name": ""}, 400, ("/name", "blank")),
        ({"scopes": ["all"]}, 400, ("/scopes/0", "invalid_choice")),
        ({"scopes": []}, 400, ("/scopes", "empty")),
        ({"expires_at": "2020-01-01T00:00:00Z"}, 422, ("/expires_at", "refused")),
        ({"expires_at": "2999-01-01T00:00:00Z"}, 422, ("/expires_at", "refused")),
        ({"lifetime": 3}, 400, ("/lifetime", "unknown")),
    ],
)
def test_a_token_that_may_not_be_is_refused(api, change, status, error):
    form = {"name": "ci", "scopes": ["jobs:read"]} | change

    answer = api.post(TOKENS, form, format="json")

    errors = [(each["pointer"], each["code"]) for each in answer.json()["errors"]]
    assert (answer.status_code, errors) == (status, [error])


@pytest.mark.parametrize(
    "header",
    [
        "Bearer mst_00000000_" + "0" * 40,
        "Bearer nonsense",
        "Bearer ",
        "bearer \x80",
        "Basic YTpi",
        "",
    ],
)
def test_without_a_good_token_nothing_opens(member, header):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=header)

    answer = client.get("/api/v1/jobs")

    body = answer.json()
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert answer["Content-Type"] == "application/problem+json"
    assert body["code"] in {"authentication_failed", "not_authenticated"}


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("get", "/api/v1/jobs", "jobs:read"),
        ("get", "/api/v1/jobs/{job}", "jobs:read"),
        ("get", "/api/v1/jobs/{job}/explanation", "jobs:read"),
        ("post", "/api/v1/jobs/{job}/cancel", "jobs:write"),
        ("get", "/api/v1/nodes", "nodes:read"),
        ("get", "/api/v1/tenants", "tenants:read"),
        ("get", "/api/v1/quotas", "quotas:read"),
        ("get", "/api/v1/tokens", "tokens:read"),
    ],
)
def test_a_scope_reaches_as_far_as_it_says(with_scopes, member, method, path, scope):
    others = [
        each
        for each in (
            "jobs:read",
            "jobs:write",
            "nodes:read",
            "tenants:read",
            "quotas:read",
            "tokens:read",
        )
        if each != scope
    ]
    url = path.format(job=JobFactory(tenant=member.tenant).public_id)

    refused = getattr(with_scopes(*others), method)(url)
    answered = getattr(with_scopes(scope), method)(url)

    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert refused.json()["detail"] == (
        f"This token lacks the scope {scope}; make one that has it."
    )
    assert answered.status_code == 200


def test_a_token_makes_no_stronger_token(with_scopes):
    client = with_scopes("tokens:write", "jobs:read")

    stronger = client.post(TOKENS, {"name": "x", "scopes": ["jobs:write"]}, format="json")
    weaker = client.post(TOKENS, {"name": "x", "scopes": ["jobs:read"]}, format="json")

    assert (stronger.status_code, stronger.json()["errors"][0]["pointer"]) == (403, "/scopes")
    assert weaker.status_code == 201


def test_a_token_needs_no_csrf_token(with_scopes, member):
    job = JobFactory(tenant=member.tenant)
    client = with_scopes("jobs:write")
    client.handler.enforce_csrf_checks = True

    assert client.post(f"/api/v1/jobs/{job.public_id}/cancel").status_code == 200
