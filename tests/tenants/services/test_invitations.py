"""Invitations by mail: what becomes of each address, who is told, and who comes in by the link."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from tenants.models import Invitation, Notification, Role, User
from tenants.services.invitation_mail import mail_invitations
from tenants.services.invitations import (
    LIFE,
    MOST_A_DAY,
    InvitationSpent,
    TooMany,
    invitation_of,
    invite,
    join,
    join_anew,
    path_of,
    resend,
    withdraw,
)
from tenants.services.membership import Caps
from tenants.services.users import UserWish
from tests.factories import MembershipFactory, UserFactory

T0 = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
ADDRESS = "ada@example.org"


@pytest.fixture
def lead(db):
    return MembershipFactory(
        tenant__slug="vision", tenant__name="Vision", user__username="mei", role=Role.LEAD
    )


@pytest.fixture(autouse=True)
def _mail_server(settings):
    settings.SENDS_MAIL = True
    settings.BASE_URL = "https://muster.example.org"


def ask(lead, *addresses, at=T0, caps=None, role=Role.RESEARCHER):
    lines = invite(lead.tenant, addresses, role=role, caps=caps or Caps(), by=lead.user, at=at)
    return [line.outcome for line in lines]


def only():
    return Invitation.objects.get()


def secret(invitation):
    return path_of(invitation).strip("/").rpartition("/")[2]


def roles(lead):
    return dict(lead.tenant.memberships.values_list("user__username", "role"))


def actions():
    return list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))


def test_each_address_is_told_what_became_of_it(lead):
    MembershipFactory(tenant=lead.tenant, user__email="In@example.org")
    ask(lead, "open@example.org")

    told = ask(lead, ADDRESS, "no address", "Open@example.org", "in@example.org", "ADA@example.org")

    assert told == ["invited", "no_address", "open", "member", "twice"]
    assert sorted(Invitation.objects.values_list("email", flat=True)) == [
        ADDRESS,
        "open@example.org",
    ]


def test_who_has_an_account_elsewhere_is_not_told_to_the_lead(lead):
    UserFactory(email=ADDRESS)

    assert ask(lead, ADDRESS, "nobody@example.org") == ["invited", "invited"]
    assert mail_invitations(at=T0) == 2
    assert sorted(one.to[0] for one in mail.outbox) == [ADDRESS, "nobody@example.org"]


def test_who_has_an_account_is_told_in_the_inbox_and_by_one_mail(lead):
    ada = UserFactory(email="Ada@Example.org", username="ada")
    ask(lead, ADDRESS)
    mail_invitations(at=T0)

    row = Notification.objects.get(user=ada)
    ada.refresh_from_db()
    assert (row.kind, row.link, row.mail_due_at) == ("invited", path_of(only()), None)
    assert ada.unread == 1
    assert len(mail.outbox) == 1


def test_the_mail_says_who_asks_into_what_and_leaves_once(lead):
    ask(lead, ADDRESS)

    assert [mail_invitations(at=T0), mail_invitations(at=T0)] == [1, 0]
    (sent,) = mail.outbox
    assert sent.subject == "mei invites you into Vision"
    assert f"https://muster.example.org{path_of(only())}" in sent.body
    assert "It works until 2026-03-09." in sent.body


def test_a_mail_server_that_is_away_delays_the_mail(lead, settings):
    settings.SENDS_MAIL = False
    ask(lead, ADDRESS)
    assert mail_invitations(at=T0) == 0
    settings.SENDS_MAIL = True

    assert mail_invitations(at=T0 + HOUR) == 1


def test_an_account_joins_once_with_the_role_and_caps(lead):
    ask(lead, ADDRESS, caps=Caps(gpus_at_once=8, job_hours=24), role=Role.VIEWER)
    ada = UserFactory(username="ada")
    link = secret(only())

    membership = join(link, ada, at=T0 + HOUR)

    assert (membership.role, membership.gpus_at_once, membership.job_hours) == (1, 8, 24)
    with pytest.raises(InvitationSpent):
        join(link, UserFactory(), at=T0 + HOUR)
    assert roles(lead) == {"mei": Role.LEAD, "ada": Role.VIEWER}
    assert actions() == ["invite", "accept_invitation"]


def test_a_new_account_has_the_address_that_was_invited(lead):
    ask(lead, ADDRESS)

    ada = join_anew(secret(only()), UserWish(username="ada", email="evil@example.org"), at=T0)

    assert (ada.email, ada.has_usable_password(), ada.is_operator) == (ADDRESS, False, False)
    assert roles(lead)["ada"] == Role.RESEARCHER
    assert actions() == ["invite", "create_user", "accept_invitation"]


@pytest.mark.parametrize("name", ["mei", "MEI", "no name!"])
def test_a_user_name_that_will_not_do_uses_nothing_up(lead, name):
    ask(lead, ADDRESS)
    link = secret(only())

    with pytest.raises((Conflict, Refused)):
        join_anew(link, UserWish(username=name), at=T0)

    assert invitation_of(link, at=T0) == only()
    assert User.objects.count() == 1


def test_no_second_account_is_made_for_an_address(lead):
    UserFactory(email=ADDRESS)
    ask(lead, ADDRESS)

    with pytest.raises(Conflict):
        join_anew(secret(only()), UserWish(username="ada"), at=T0)


def test_a_closed_account_is_mailed_nothing_and_no_other_made_for_it(lead):
    UserFactory(email=ADDRESS, is_active=False)

    assert ask(lead, ADDRESS) == ["invited"]
    assert mail_invitations(at=T0) == 0
    with pytest.raises(Conflict):
        join_anew(secret(only()), UserWish(username="ada"), at=T0)


def test_who_is_in_already_keeps_their_role(lead):
    ask(lead, ADDRESS, role=Role.VIEWER)

    with pytest.raises(Conflict):
        join(secret(only()), lead.user, at=T0)

    assert roles(lead) == {"mei": Role.LEAD}


def test_a_link_ends(lead):
    ask(lead, ADDRESS)
    link = secret(only())

    assert invitation_of(link, at=T0 + LIFE - HOUR)
    for spoilt in (link, link + "x", "guessed", f"{only().pk}-1"):
        with pytest.raises(InvitationSpent):
            invitation_of(spoilt, at=T0 + LIFE)
    with pytest.raises(InvitationSpent):
        invitation_of(f"{only().pk}-1", at=T0)


def test_a_mail_that_is_sent_again_voids_the_old_link(lead):
    ask(lead, ADDRESS)
    old = secret(only())
    mail_invitations(at=T0)

    with pytest.raises(TooMany):
        resend(only(), by=lead.user, at=T0 + timedelta(minutes=9))
    resend(only(), by=lead.user, at=T0 + HOUR)

    with pytest.raises(InvitationSpent):
        invitation_of(old, at=T0 + HOUR)
    assert invitation_of(secret(only()), at=T0 + HOUR + LIFE - timedelta(seconds=1))
    assert mail_invitations(at=T0 + HOUR) == 1
    assert actions() == ["invite", "resend_invitation"]


def test_a_withdrawn_invitation_opens_nothing_and_can_be_made_anew(lead):
    ask(lead, ADDRESS)
    link = secret(only())

    withdraw(only(), by=lead.user, at=T0)

    with pytest.raises(InvitationSpent):
        join(link, UserFactory(), at=T0)
    with pytest.raises(Conflict):
        withdraw(only(), by=lead.user, at=T0)
    assert mail_invitations(at=T0) == 0
    assert ask(lead, ADDRESS) == ["invited"]


def test_a_tenant_mails_only_so_many_a_day(lead):
    for batch in range(MOST_A_DAY // 100):
        ask(lead, *(f"p{batch}-{n}@example.org" for n in range(100)))

    assert ask(lead, ADDRESS) == ["too_many"]
    with pytest.raises(TooMany):
        resend(Invitation.objects.first(), by=lead.user, at=T0 + HOUR)
    assert ask(lead, ADDRESS, at=T0 + timedelta(days=1, seconds=1)) == ["invited"]


def test_so_many_addresses_at_once_are_refused_whole(lead):
    with pytest.raises(Refused):
        ask(lead, *(f"p{n}@example.org" for n in range(101)))

    assert not Invitation.objects.exists()


def test_below_lead_nobody_invites(lead):
    bob = MembershipFactory(tenant=lead.tenant, role=Role.RESEARCHER)
    ask(lead, ADDRESS)

    for refused in (
        lambda: ask(bob, "eve@example.org"),
        lambda: resend(only(), by=bob.user, at=T0 + HOUR),
        lambda: withdraw(only(), by=bob.user, at=T0),
    ):
        with pytest.raises(NotAllowed):
            refused()

    assert actions() == ["invite"]


def test_inviting_costs_the_same_queries_for_any_number_of_people_who_are_told(
    lead, django_assert_max_num_queries
):
    for n in range(10):
        UserFactory(email=f"p{n}@example.org")

    with django_assert_max_num_queries(40):  # two a line: the invitation and its audit line
        ask(lead, *(f"p{n}@example.org" for n in range(10)))
