"""Who is told what: once each, by the ways and at the times that they chose."""

from datetime import UTC, datetime, timedelta
from smtplib import SMTPException

import pytest
from django.core.mail.backends.locmem import EmailBackend

from tenants.models import MailTimes, Notification, NotificationKind, QuotaRequestEvent, Role
from tenants.services.mail import send_due_mail
from tenants.services.notices import told
from tenants.services.notifications import (
    Notice,
    Ways,
    choose,
    forget_old,
    mail_at,
    mark_read,
    notify,
)
from tenants.services.telling import tell_of_requests
from tests.factories import (
    MembershipFactory,
    NotificationFactory,
    QuotaRequestEventFactory,
    QuotaRequestFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
FAILED = NotificationKind.JOB_FAILED


@pytest.fixture
def omar():
    return UserFactory(username="omar", email="omar@example.org")


@pytest.fixture(autouse=True)
def _mail_server(settings):
    settings.SENDS_MAIL = True
    settings.BASE_URL = "https://muster.example.org"


def notice(user, *, key="job-event:1", kind=FAILED, **changes):
    facts = {"job": "train", "state": "failed", "who": ""}
    known = {"link": "/jobs/j-1/", "happened_at": T0, "facts": facts}
    return Notice(user=user, kind=kind, key=key, **(known | changes))


def inbox(user):
    return [told(row).says for row in Notification.objects.shown_to(user)]


def unread(user):
    user.refresh_from_db()
    return user.unread


def test_what_happened_is_told_once(omar):
    notify([notice(omar)], at=T0)
    notify([notice(omar)], at=T0 + timedelta(minutes=1))

    assert inbox(omar) == ["train has failed."]
    assert unread(omar) == 1


def test_what_was_read_is_no_longer_counted(omar):
    notify([notice(omar), notice(omar, key="job-event:2")], at=T0)
    first = Notification.objects.first()

    mark_read(omar, at=T0, pk=first.pk)
    left = unread(omar)
    mark_read(omar, at=T0)

    assert (left, unread(omar)) == (1, 0)


def test_one_reads_nothing_of_anothers(omar):
    theirs = NotificationFactory()

    mark_read(omar, at=T0, pk=theirs.pk)

    theirs.refresh_from_db()
    assert theirs.read_at is None


@pytest.mark.parametrize(
    ("ways", "shown", "mailed"),
    [
        (Ways(in_inbox=True, by_mail=False), 1, 0),
        (Ways(in_inbox=False, by_mail=True), 0, 1),
        (Ways(in_inbox=False, by_mail=False), 0, 0),
    ],
)
def test_people_choose_how_they_are_told(omar, mailoutbox, ways, shown, mailed):
    choose(omar, {FAILED: ways})

    notify([notice(omar)], at=T0)
    send_due_mail(at=T0)

    assert (len(inbox(omar)), unread(omar), len(mailoutbox)) == (shown, shown, mailed)


def test_what_is_due_together_is_one_mail_and_leaves_once(omar, mailoutbox):
    notify([notice(omar), notice(omar, key="job-event:2")], at=T0)

    sent = [send_due_mail(at=T0), send_due_mail(at=T0)]

    (mail,) = mailoutbox
    assert sent == [1, 0]
    assert (mail.to, mail.subject) == (["omar@example.org"], "train has failed. (and 1 more)")
    assert mail.body.count("https://muster.example.org/jobs/j-1/\nYou submitted this job.") == 2
    assert "https://muster.example.org/profile/notifications/" in mail.body


def test_a_mail_is_in_the_language_of_its_reader(omar, mailoutbox):
    omar.language = "zh-hans"
    omar.save()

    notify([notice(omar)], at=T0)
    send_due_mail(at=T0)

    assert mailoutbox[0].subject == "train 失败。"


def test_mail_waits_for_a_server_that_is_away(omar, mailoutbox, monkeypatch):
    notify([notice(omar)], at=T0)

    with monkeypatch.context() as away:
        away.setattr(EmailBackend, "open", lambda _self: (_ for _ in ()).throw(OSError("refused")))
        missed = send_due_mail(at=T0)

    assert (missed, send_due_mail(at=T0), len(mailoutbox)) == (0, 1, 1)


def test_mail_that_the_server_refused_is_not_sent_again(omar, mailoutbox, monkeypatch):
    notify([notice(omar)], at=T0)

    with monkeypatch.context() as refusing:
        refuse = lambda _self, _messages: (_ for _ in ()).throw(SMTPException("no such box"))  # noqa: E731 - a stand-in of one line
        refusing.setattr(EmailBackend, "send_messages", refuse)
        refused = send_due_mail(at=T0)

    assert (refused, send_due_mail(at=T0), mailoutbox) == (0, 0, [])


def test_without_a_mail_server_nothing_is_claimed_to_be_mailed(omar, settings, mailoutbox):
    settings.SENDS_MAIL = False
    notify([notice(omar)], at=T0)

    assert send_due_mail(at=T0) == 0
    assert Notification.objects.get().mailed_at is None


def test_mail_that_is_due_asks_for_the_task(omar, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        notify([notice(omar)], at=T0)

    assert sent == [("tenants.send_mail", {})]


@pytest.mark.parametrize(
    ("times", "due"),
    [
        ({}, "12:00"),
        ({"daily_at": 9}, "01:00"),  # 09:00 of the next day in Shanghai
        ({"daily_at": 21}, "13:00"),
        ({"quiet_from": 20, "quiet_until": 8}, "00:00"),
        ({"quiet_from": 21, "quiet_until": 8}, "12:00"),
        ({"quiet_from": 0, "quiet_until": 8}, "12:00"),
        ({"daily_at": 21, "quiet_from": 20, "quiet_until": 22}, "14:00"),
    ],
)
def test_mail_comes_when_its_reader_likes_it(omar, times, due):
    omar.time_zone = "Asia/Shanghai"  # noon is 20:00 there

    found = mail_at(omar, MailTimes(user=omar, **times), T0)

    assert f"{found:%H:%M}" == due
    assert T0 <= found <= T0 + timedelta(days=1)


def test_what_was_told_long_ago_is_removed(omar):
    NotificationFactory(user=omar, made_at=T0 - timedelta(days=91))
    kept = NotificationFactory(user=omar, made_at=T0 - timedelta(days=89))

    forget_old(at=T0)

    assert list(Notification.objects.values_list("pk", flat=True)) == [kept.pk]
    assert unread(omar) == 1


@pytest.mark.parametrize(
    ("action", "who", "says"),
    [
        ("submit", ["root"], "Q-%s of Language waits for your decision."),
        ("answer", ["root"], "Q-%s of Language waits for your decision."),
        ("approve", ["mei"], "Q-%s of Language: approved."),
        ("reject", ["mei"], "Q-%s of Language: rejected."),
        ("remind", ["lea"], "The quota of Language by Q-%s: reminder of the end."),
        ("accept", [], ""),
    ],
)
def test_a_step_of_a_request_is_told_to_those_whom_it_concerns(action, who, says):
    UserFactory(username="root", is_operator=True)
    request = QuotaRequestFactory(requested_by__username="mei", tenant__name="Language")
    MembershipFactory(tenant=request.tenant, user__username="lea", role=Role.LEAD)
    MembershipFactory(tenant=request.tenant, user__username="rob", role=Role.RESEARCHER)
    QuotaRequestEventFactory(request=request, action=action)

    told_of = [tell_of_requests(at=T0), tell_of_requests(at=T0)]

    rows = Notification.objects.select_related("user")
    assert told_of == [1, 0]
    assert [(row.user.username, told(row).says) for row in rows] == [
        (name, says % request.pk) for name in who
    ]
    assert not QuotaRequestEvent.objects.filter(is_told=False).exists()


def test_who_did_it_is_not_told():
    operator = UserFactory(is_operator=True)
    QuotaRequestEventFactory(action="submit", actor=operator)

    tell_of_requests(at=T0)

    assert not Notification.objects.exists()
