"""API tokens in the browser."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from tenants.models import ApiToken
from tests.factories import ApiTokenFactory, MembershipFactory

pytestmark = pytest.mark.django_db

ADDRESS = "/profile/tokens/"
FILLED_IN = {"name": "nightly", "days": "30", "scopes": ["jobs:read", "jobs:write"]}


@pytest.fixture
def ada(client):
    member = MembershipFactory(user__username="ada", tenant__slug="nlp")
    client.force_login(member.user)
    return member.user


def secrets_in(page):
    return set(re.findall(r"mst_[0-9a-z]+_[0-9a-f]{40}", page.content.decode()))


def test_a_token_is_made_and_its_secret_shown_once(client, ada):
    made = client.post(ADDRESS, FILLED_IN)
    again = client.get(ADDRESS)

    token = ApiToken.objects.get()
    life = token.expires_at - token.created_at
    assert (made.status_code, token.user, token.name) == (201, ada, "nightly")
    assert (token.scopes, life) == (["jobs:read", "jobs:write"], timedelta(days=30))
    assert (len(secrets_in(made)), secrets_in(again)) == (1, set())
    assert "no-store" in made["Cache-Control"]
    assert f'id="token-{token.prefix}"' in again.content.decode()


def test_the_example_has_the_new_token_in_it_and_the_token_opens(client, ada):
    made = client.post(ADDRESS, FILLED_IN)

    (secret,) = secrets_in(made)
    client.logout()
    answer = client.get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})

    page = made.content.decode()
    assert answer.json()["username"] == "ada"
    assert f"Authorization: Bearer {secret}" in page
    assert '"tenant": "nlp"' in page


@pytest.mark.parametrize(
    ("field", "changes"),
    [("name", {"name": ""}), ("days", {"days": "4000"}), ("scopes", {"scopes": ["jobs:own"]})],
)
def test_what_is_wrong_is_said_and_nothing_made(client, ada, field, changes):
    answer = client.post(ADDRESS, FILLED_IN | changes)

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert ApiToken.objects.count() == 0


def test_a_token_is_revoked_and_leaves_the_list(client, ada):
    token = ApiTokenFactory(user=ada)

    page = client.post(f"{ADDRESS}{token.prefix}/revoke/", follow=True)

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert f'id="token-{token.prefix}"' not in page.content.decode()


def test_tokens_of_others_are_not_there(client, ada):
    other = ApiTokenFactory()

    answer = client.post(f"{ADDRESS}{other.prefix}/revoke/")

    assert answer.status_code == 404
    assert other.prefix not in client.get(ADDRESS).content.decode()


def test_an_expired_token_says_so(client, ada):
    past = timezone.now() - timedelta(days=1)
    ApiTokenFactory(user=ada, created_at=past - timedelta(days=1), expires_at=past)

    assert "expired" in client.get(ADDRESS).content.decode()
