"""People of a tenant over REST."""

import pytest
from rest_framework.test import APIClient

from tenants.models import Role
from tests.factories import MembershipFactory, UserFactory

PEOPLE = "/api/v1/tenants/vision/memberships"


@pytest.fixture
def lead(db):
    return MembershipFactory(tenant__slug="vision", user__username="mei", role=Role.LEAD)


@pytest.fixture
def api(lead):
    client = APIClient()
    client.force_login(lead.user)
    return client


def roles(lead):
    return dict(lead.tenant.memberships.values_list("user__username", "role"))


def test_people_are_listed_with_their_roles(api, lead):
    MembershipFactory(tenant=lead.tenant, user__username="bob", user__first_name="Bob")
    MembershipFactory(user__username="stranger")

    assert api.get(PEOPLE).json()["items"] == [
        {"user": "mei", "name": "", "role": "lead"},
        {"user": "bob", "name": "Bob", "role": "researcher"},
    ]


def test_a_lead_lets_in_changes_and_puts_out(api, lead):
    UserFactory(username="bob")

    added = api.post(PEOPLE, {"user": "bob", "role": "viewer"}, format="json")
    changed = api.patch(added["Location"], {"role": "researcher"}, format="json")
    gone = api.delete(added["Location"])

    assert (added.status_code, added.json()["role"]) == (201, "viewer")
    assert changed.json() == {"user": "bob", "name": "", "role": "researcher"}
    assert gone.status_code == 204
    assert roles(lead) == {"mei": Role.LEAD}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"user": "nobody", "role": "viewer"}, 400),
        ({"user": "bob", "role": "king"}, 400),
        ({"user": "mei", "role": "viewer"}, 409),
    ],
)
def test_who_cannot_be_let_in(api, lead, sent, status):
    UserFactory(username="bob")

    assert api.post(PEOPLE, sent, format="json").status_code == status
    assert roles(lead) == {"mei": Role.LEAD}


def test_the_last_lead_stays(api, lead):
    assert api.delete(f"{PEOPLE}/mei").status_code == 422
    assert api.patch(f"{PEOPLE}/mei", {"role": "viewer"}, format="json").status_code == 422


def test_below_lead_nobody_is_changed(lead):
    researcher = MembershipFactory(tenant=lead.tenant, user__username="bob")
    client = APIClient()
    client.force_login(researcher.user)

    assert client.get(PEOPLE).status_code == 200
    for user in ("mei", "nobody"):  # nor told who has an account
        asked = client.post(PEOPLE, {"user": user, "role": "viewer"}, format="json")
        assert asked.status_code == 403
    assert client.delete(f"{PEOPLE}/mei").status_code == 403
    assert client.patch(f"{PEOPLE}/bob", {"role": "lead"}, format="json").status_code == 403
