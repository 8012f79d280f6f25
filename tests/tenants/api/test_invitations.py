"""Invitations into a tenant over REST."""

import pytest
from rest_framework.test import APIClient

from tenants.models import Invitation, Role
from tests.factories import InvitationFactory, MembershipFactory

INVITATIONS = "/api/v1/tenants/vision/invitations"


@pytest.fixture
def lead(db):
    return MembershipFactory(tenant__slug="vision", user__username="mei", role=Role.LEAD)


def as_user(user):
    client = APIClient()
    client.force_login(user)
    return client


def test_a_lead_invites_sees_sends_again_and_withdraws(lead):
    api = as_user(lead.user)
    sent = {"emails": ["ada@example.org", "nobody"], "role": "viewer", "gpus_at_once": 2}

    made = api.post(INVITATIONS, sent, format="json")
    (row,) = api.get(INVITATIONS).json()["items"]
    again = api.post(f"{INVITATIONS}/{row['id']}/resend")
    gone = api.delete(f"{INVITATIONS}/{row['id']}")

    assert made.json() == {
        "items": [
            {"email": "ada@example.org", "outcome": "invited"},
            {"email": "nobody", "outcome": "no_address"},
        ]
    }
    assert (row["email"], row["role"], row["gpus_at_once"], row["invited_by"]) == (
        "ada@example.org",
        "viewer",
        2,
        "mei",
    )
    assert (again.status_code, again.json()["code"]) == (422, "too_many")
    assert gone.status_code == 204
    assert api.get(INVITATIONS).json()["items"] == []


@pytest.mark.parametrize(
    "sent", [{"emails": []}, {"emails": ["x"], "role": "king"}, {"role": "viewer"}]
)
def test_what_is_no_invitation_is_refused(lead, sent):
    assert as_user(lead.user).post(INVITATIONS, sent, format="json").status_code == 400


def test_below_lead_none_is_seen_or_made(lead):
    row = InvitationFactory(tenant=lead.tenant, invited_by=lead.user)
    bob = as_user(MembershipFactory(tenant=lead.tenant).user)

    answers = [
        bob.get(INVITATIONS),
        bob.post(INVITATIONS, {"emails": ["e@example.org"], "role": "viewer"}, format="json"),
        bob.delete(f"{INVITATIONS}/{row.pk}"),
    ]

    assert [answer.status_code for answer in answers] == [403] * 3
    assert Invitation.objects.get().withdrawn_at is None
