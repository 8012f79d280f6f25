"""People of a tenant over REST."""

import pytest
from rest_framework.test import APIClient

from tenants.models import Role
from tests.factories import MembershipFactory, PriorityClassFactory, UserFactory

PEOPLE = "/api/v1/tenants/vision/memberships"
UNLIMITED = {"gpus_at_once": None, "job_hours": None, "highest_priority": None}


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
        {"user": "mei", "name": "", "role": "lead"} | UNLIMITED,
        {"user": "bob", "name": "Bob", "role": "researcher"} | UNLIMITED,
    ]


def test_a_lead_lets_in_changes_and_puts_out(api, lead):
    UserFactory(username="bob")

    added = api.post(PEOPLE, {"user": "bob", "role": "viewer"}, format="json")
    changed = api.patch(added["Location"], {"role": "researcher"}, format="json")
    gone = api.delete(added["Location"])

    assert (added.status_code, added.json()["role"]) == (201, "viewer")
    assert changed.json() == {"user": "bob", "name": "", "role": "researcher"} | UNLIMITED
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


def test_a_lead_says_what_somebody_may_ask_for_at_most(api, lead):
    MembershipFactory(tenant=lead.tenant, user__username="bob")
    PriorityClassFactory(name="normal")
    asked = {"gpus_at_once": 8, "job_hours": 24, "highest_priority": "normal"}

    changed = api.patch(f"{PEOPLE}/bob", asked, format="json")
    lifted = api.patch(f"{PEOPLE}/bob", {"job_hours": None}, format="json")

    assert (changed.status_code, changed.json()) == (
        200,
        {"user": "bob", "name": "", "role": "researcher"} | asked,
    )
    assert lifted.json()["job_hours"] is None
    assert lifted.json()["gpus_at_once"] == 8


@pytest.mark.parametrize(
    "sent", [{"gpus_at_once": 0}, {"job_hours": "many"}, {"highest_priority": "none-such"}]
)
def test_what_is_no_limit_is_refused(api, lead, sent):
    assert api.patch(f"{PEOPLE}/mei", sent, format="json").status_code == 400


def test_nobody_lifts_their_own_limit(lead):
    bob = MembershipFactory(tenant=lead.tenant, user__username="bob", gpus_at_once=2)
    client = APIClient()
    client.force_login(bob.user)

    answer = client.patch(f"{PEOPLE}/bob", {"gpus_at_once": None}, format="json")

    bob.refresh_from_db()
    assert (answer.status_code, bob.gpus_at_once) == (403, 2)
