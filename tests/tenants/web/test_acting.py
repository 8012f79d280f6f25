"""An operator in a member's name: loud, short, on record with both names, and never more."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.core.models import AuditEvent
from tenants.models import ApiToken, Role, User
from tenants.services.users import choose_password
from tenants.web.acting import KEY
from tests.factories import MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db

BANNER = 'id="acting"'
WHY = {"reason": "a ticket of theirs"}


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root():
    return UserFactory(username="root", is_operator=True)


@pytest.fixture
def omar():
    member = MembershipFactory(
        tenant__slug="nlp", user__username="omar", user__first_name="Omar", role=Role.LEAD
    )
    return member.user


@pytest.fixture
def operator(root):
    return signed_in(root)


@pytest.fixture
def acting(operator, omar):
    """The operator's client, in the name of omar."""
    operator.post("/admin/users/of/omar/act/", WHY)
    return operator


def text_of(answer):
    return " ".join(answer.content.decode().split())


def lines():
    columns = ("action", "actor__username", "really__username")
    return list(AuditEvent.objects.order_by("pk").values_list(*columns))


def age(client, **by):
    session = client.session
    session[KEY] = session[KEY] | {"since": (timezone.now() - timedelta(**by)).timestamp()}
    session.save()


@pytest.mark.parametrize("path", ["/", "/jobs/", "/tenants/nlp/", "/inbox/", "/nothing/"])
def test_every_page_says_so(acting, path):
    page = text_of(acting.get(path))

    assert BANNER in page
    assert "You act as Omar." in page
    assert "with your name, root" in page


def test_they_see_what_the_member_sees_and_no_more(acting):
    assert acting.get("/api/v1/me").json()["username"] == "omar"
    assert acting.get("/admin/users/").status_code == 403
    assert BANNER not in text_of(signed_in(User.objects.get(username="omar")).get("/"))


def test_one_click_ends_it(acting):
    acting.post("/acting/end/")

    page = acting.get("/admin/users/")
    assert page.status_code == 200
    assert BANNER not in text_of(page)
    assert lines()[-1] == ("end_acting", "root", None)


def test_what_is_seen_and_done_is_on_record_with_both_names(acting, omar):
    bob = MembershipFactory(tenant=omar.memberships.get().tenant, user__username="bob")

    acting.get("/jobs/?state=running")
    acting.get("/jobs/", headers={"HX-Request": "true"})  # a page that asks again by itself
    acting.post("/tenants/nlp/memberships/bob/role/", {"role": 1})

    bob.refresh_from_db()
    assert bob.role == Role.VIEWER
    assert lines() == [
        ("begin_acting", "root", None),
        ("look_as", "omar", "root"),
        ("set_role", "omar", "root"),
    ]
    assert AuditEvent.objects.get(action="begin_acting").reason == WHY["reason"]
    assert AuditEvent.objects.get(action="look_as").after == {"path": "/jobs/?state=running"}


def test_the_audit_log_shows_both(acting, root):
    acting.get("/jobs/")

    assert "really root" in text_of(signed_in(root).get("/admin/audit/?action=look_as"))


def test_nothing_of_it_is_left_after_the_request(acting, omar):
    acting.get("/jobs/")

    choose_password(omar, "staple battery horse")  # refused while somebody acts

    assert lines()[-1] == ("choose_password", "omar", None)


def test_passwords_and_tokens_stay_theirs(acting, omar):
    before = omar.password
    token = {"name": "x", "days": 30, "scopes": ["jobs:read"]}
    wish = {"name": "x", "scopes": ["jobs:read"]}
    omar.set_unusable_password()
    omar.save()

    answers = [
        acting.post("/profile/tokens/", token),
        acting.post("/api/v1/tokens", wish, content_type="application/json"),
        acting.post(
            "/profile/password/", {"password": "staple battery", "again": "staple battery"}
        ),
    ]

    omar.refresh_from_db()
    assert [answer.status_code for answer in answers] == [403] * 3
    assert not ApiToken.objects.exists()
    assert not omar.has_usable_password() or omar.password == before


@pytest.mark.parametrize(
    "person", [{"is_operator": True}, {"is_active": False}, {"is_superuser": True}]
)
def test_nobody_acts_as_an_operator_or_a_closed_account(operator, person):
    UserFactory(username="other", **person)

    operator.post("/admin/users/of/other/act/", WHY)

    assert KEY not in operator.session
    assert lines() == []


def test_without_a_reason_nobody_does(operator, omar):
    page = operator.post("/admin/users/of/omar/act/", {"reason": " "}, follow=True)

    assert "A reason is needed" in text_of(page)
    assert KEY not in operator.session


def test_only_operators_do(omar):
    client = signed_in(omar)
    UserFactory(username="bob")

    assert client.post("/admin/users/of/bob/act/", WHY).status_code == 403
    assert KEY not in client.session


def test_it_is_over_after_half_an_hour_and_nothing_is_done_then(acting, omar):
    bob = MembershipFactory(tenant=omar.memberships.get().tenant, user__username="bob")
    age(acting, minutes=29, seconds=50)
    inside = text_of(acting.get("/jobs/"))
    age(acting, minutes=30)

    late = acting.post("/tenants/nlp/memberships/bob/role/", {"role": 1}, follow=True)

    bob.refresh_from_db()
    assert BANNER in inside
    assert bob.role == Role.RESEARCHER
    assert "is over: it lasts 30 minutes at most. Nothing was done." in text_of(late)
    assert BANNER not in text_of(late)
    assert lines()[-1] == ("end_acting", "root", None)


@pytest.mark.parametrize("path", ["/api/v1/me", "/jobs/"])
def test_a_program_or_a_part_of_a_page_is_turned_away_then(acting, path):
    age(acting, minutes=31)

    assert acting.get(path, headers={"HX-Request": "true"}).status_code == 401


def test_who_is_an_operator_no_longer_acts_no_longer(acting, root):
    User.objects.filter(pk=root.pk).update(is_operator=False)

    acting.get("/jobs/")

    assert KEY not in acting.session


def test_who_becomes_an_operator_meanwhile_is_acted_no_longer(acting, omar):
    User.objects.filter(pk=omar.pk).update(is_operator=True)

    assert acting.post("/jobs/new/", {}).status_code == 302
    assert KEY not in acting.session
