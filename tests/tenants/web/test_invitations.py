"""Invitations in the browser: a lead pastes addresses, and their owners come in by the link."""

import pytest
from django.test import Client

from tenants.models import Invitation, Role
from tenants.services.invitations import path_of
from tests.factories import InvitationFactory, MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = "/tenants/vision/invitations/"
FORM = {"role": 2, "gpus_at_once": "", "job_hours": "", "highest_priority": ""}


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def lead():
    return MembershipFactory(tenant__slug="vision", user__username="mei", role=Role.LEAD)


@pytest.fixture
def invited(lead):
    return InvitationFactory(tenant=lead.tenant, invited_by=lead.user, email="ada@example.org")


def text_of(answer):
    return " ".join(answer.content.decode().split())


def roles(lead):
    return dict(lead.tenant.memberships.values_list("user__username", "role"))


def test_a_pasted_list_is_answered_line_by_line(lead):
    pasted = "ada@example.org, bob@example.org\r\nnobody\n"

    page = signed_in(lead.user).post(PAGE, FORM | {"emails": pasted, "gpus_at_once": 4})

    outcomes = [(line.text, line.outcome) for line, _says in page.context["told"]]
    assert outcomes == [
        ("ada@example.org", "invited"),
        ("bob@example.org", "invited"),
        ("nobody", "no_address"),
    ]
    assert set(Invitation.objects.values_list("gpus_at_once", flat=True)) == {4}


@pytest.mark.parametrize("sent", [{"emails": ""}, {"emails": "x " * 101}, {"gpus_at_once": 0}])
def test_what_cannot_be_is_said(lead, sent):
    form = FORM | {"emails": "ada@example.org"} | sent

    assert signed_in(lead.user).post(PAGE, form).status_code == 422
    assert not Invitation.objects.exists()


def test_an_invitation_is_sent_again_and_withdrawn(lead, invited):
    client = signed_in(lead.user)

    client.post(f"{PAGE}{invited.pk}/resend/")
    again = client.post(f"{PAGE}{invited.pk}/resend/", follow=True)
    gone = client.post(f"{PAGE}{invited.pk}/withdraw/", follow=True)

    invited.refresh_from_db()
    assert invited.sends == 2
    assert "try again later" in text_of(again)
    assert "The invitation of ada@example.org is withdrawn." in text_of(gone)


def test_below_lead_there_is_nothing_to_see(lead, invited):
    client = signed_in(MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER).user)

    answers = [
        client.get(PAGE),
        client.post(PAGE, FORM | {"emails": "eve@example.org"}),
        client.post(f"{PAGE}{invited.pk}/resend/"),
        client.post(f"{PAGE}{invited.pk}/withdraw/"),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    assert Invitation.objects.get().withdrawn_at is None


def test_somebody_without_an_account_makes_one_and_chooses_a_password(lead, invited):
    ada, link = Client(), path_of(invited)

    looked = ada.get(link)
    ada.get(link)  # looking uses nothing up
    led_to = ada.post(link, {"username": "ada", "first_name": "Ada"})

    assert "A new account for ada@example.org" in text_of(looked)
    assert led_to.url == "/profile/password/"
    assert ada.get("/tenants/vision/").status_code == 200
    assert Client().get(link).status_code == 410
    assert roles(lead) == {"mei": Role.LEAD, "ada": Role.RESEARCHER}


def test_a_user_name_that_is_taken_is_said(lead, invited):
    answer = Client().post(path_of(invited), {"username": "mei"})

    assert answer.status_code == 422
    assert "Somebody has that user name already." in text_of(answer)


def test_somebody_with_an_account_signs_in_first(lead, invited):
    UserFactory(email="ADA@example.org")

    page = Client().get(path_of(invited))
    made = Client().post(path_of(invited), {"username": "ada"})

    assert "You have an account with this address" in text_of(page)
    assert made.status_code == 200
    assert roles(lead) == {"mei": Role.LEAD}


def test_who_is_signed_in_joins_by_one_click(lead, invited):
    ada = signed_in(UserFactory(username="ada"))

    ada.get(path_of(invited))
    before = roles(lead)
    answer = ada.post(path_of(invited), follow=True)

    assert before == {"mei": Role.LEAD}
    assert roles(lead) == {"mei": Role.LEAD, "ada": Role.RESEARCHER}
    assert "You are in" in text_of(answer)


def test_an_inbox_leads_to_the_invitation(lead):
    ada = UserFactory(email="ada@example.org")
    signed_in(lead.user).post(PAGE, FORM | {"emails": "ada@example.org"})

    page = signed_in(ada).get("/inbox/")

    assert "mei invites you into" in text_of(page)
