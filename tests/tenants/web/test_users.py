"""Accounts: operators make, change and close them, and let people in by a link."""

import re

import pytest
from django.test import Client

from portal.core.models import AuditEvent
from tenants.models import User
from tests.factories import MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = "/admin/users/"
LINK = re.compile(r'<code id="link">[^<]*(/sign-in/link/[^<]+/)</code>')
GOOD = "staple battery horse"


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root():
    return UserFactory(username="root", is_operator=True)


@pytest.fixture
def operator(root):
    return signed_in(root)


def actions():
    return list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))


def test_an_account_is_made_and_its_owner_comes_in_by_a_link_and_chooses_a_password(operator):
    operator.post(f"{PAGE}new/", {"username": "ada", "email": "ada@example.org"})
    link = LINK.search(operator.post(f"{PAGE}of/ada/link/").content.decode())[1]
    ada = Client()

    led_to = ada.get(link).url
    ada.post(led_to, {"password": GOOD, "again": GOOD})

    assert led_to == "/profile/password/"
    assert ada.get("/").status_code == 200  # its own session goes on
    assert Client().login(username="ada", password=GOOD)
    assert actions() == [
        "create_user",
        "reset_password",
        "make_sign_in_link",
        "use_sign_in_link",
        "choose_password",
    ]


def test_a_reset_voids_the_password_and_the_link_works_once(operator):
    person = UserFactory(username="ada")
    person.set_password(GOOD)
    person.save()

    link = LINK.search(operator.post(f"{PAGE}of/ada/link/").content.decode())[1]

    assert not Client().login(username="ada", password=GOOD)
    assert [Client().get(link).status_code for _ in range(2)] == [302, 410]


def test_a_closed_account_opens_nothing_and_can_be_opened_again(operator):
    person = UserFactory(username="ada")
    own = signed_in(person)

    operator.post(f"{PAGE}of/ada/active/")
    closed = own.get("/jobs/").status_code
    refused = operator.post(f"{PAGE}of/ada/link/", follow=True).content.decode()
    operator.post(f"{PAGE}of/ada/active/", {"open": "1"})

    assert closed == 302
    assert "This account is closed; open it first." in refused
    assert own.get("/jobs/").status_code == 200
    assert actions() == ["deactivate_user", "activate_user"]


def test_a_change_is_made_and_on_record_with_what_was_before(operator):
    UserFactory(username="ada", email="old@example.org")

    operator.post(f"{PAGE}of/ada/", {"email": "new@example.org", "first_name": "Ada"})

    event = AuditEvent.objects.get(action="change_user")
    assert (event.before["email"], event.after["email"]) == ("old@example.org", "new@example.org")
    assert User.objects.get(username="ada").first_name == "Ada"


@pytest.mark.parametrize("wrong", [{"username": "a b"}, {"username": "ROOT"}, {"email": "nowhere"}])
def test_what_will_not_do_is_said_beside_its_field(operator, wrong):
    answer = operator.post(f"{PAGE}new/", {"username": "ada"} | wrong)

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == list(wrong)
    assert User.objects.count() == 1


def test_the_last_operator_stays_one(operator):
    kept = operator.post(f"{PAGE}of/root/", {"email": "root@example.org"})
    own = operator.post(f"{PAGE}of/root/active/", follow=True).content.decode()

    assert kept.status_code == 422
    assert "You cannot close your own account" in own
    assert User.objects.get(username="root").is_operator
    assert User.objects.get(username="root").is_active


def test_accounts_are_found_by_name_and_kind(operator):
    UserFactory(username="ada", first_name="Ada", last_name="Byron")
    UserFactory(username="bob", is_active=False)

    def listed(query):
        return [row.username for row in operator.get(f"{PAGE}?{query}").context["rows"]]

    assert listed("") == ["ada", "bob", "root"]
    assert (listed("q=byr"), listed("group=closed"), listed("group=operators")) == (
        ["ada"],
        ["bob"],
        ["root"],
    )


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_any_number(operator, count, django_assert_num_queries):
    MembershipFactory.create_batch(count)

    with django_assert_num_queries(6):  # session, user, frame (2), count, rows
        operator.get(PAGE)


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("get", ""),
        ("get", "new/"),
        ("post", "new/"),
        ("get", "of/root/"),
        ("post", "of/root/"),
        ("post", "of/root/link/"),
        ("post", "of/root/active/"),
    ],
)
def test_only_operators_come_in(root, method, rest):
    lead = signed_in(MembershipFactory(role=3).user)

    assert getattr(lead, method)(f"{PAGE}{rest}").status_code == 403
    assert actions() == []


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"old": "wrong", "password": GOOD, "again": GOOD}, "old"),
        ({"old": "first battery", "password": GOOD, "again": GOOD + "s"}, "again"),
        ({"old": "first battery", "password": "password", "again": "password"}, "password"),
    ],
)
def test_a_password_is_changed_only_as_it_should_be(sent, field):
    person = UserFactory(username="ada")
    person.set_password("first battery")
    person.save()
    client = signed_in(person)

    answer = client.post("/profile/password/", sent)

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert Client().login(username="ada", password="first battery")
