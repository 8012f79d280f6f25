"""The inbox, and the page on which people choose what they are told."""

import pytest
from django.urls import reverse

from tenants.models import MailTimes, Notification, NotificationKind
from tenants.services.notifications import count_unread, usual_ways, ways_of
from tests.factories import NotificationFactory, UserFactory

pytestmark = pytest.mark.django_db

CHOICES = "/profile/notifications/"


@pytest.fixture
def omar(client):
    person = UserFactory(username="omar", email="omar@example.org")
    client.force_login(person)
    return person


def tell(person, **changes):
    row = NotificationFactory(user=person, **changes)
    count_unread([person.pk])
    return row


def test_the_header_says_how_much_is_unread(client, omar):
    before = client.get("/inbox/").content.decode()
    tell(omar)

    after = client.get("/inbox/").content.decode()

    assert ('id="unread"' in before, 'id="unread">1<' in after) == (False, True)


def test_the_inbox_says_what_happened_and_why_one_is_told(client, omar):
    tell(omar)
    tell(UserFactory(), facts={"job": "theirs", "state": "succeeded"})

    notices = client.get("/inbox/").context["notices"]

    assert [(one.says, one.why) for one in notices] == [
        ("train has ended well.", "You submitted this job.")
    ]


def test_following_a_notification_reads_it(client, omar):
    row = tell(omar)

    answer = client.get(reverse("notification", args=[row.pk]))

    omar.refresh_from_db()
    assert (answer.status_code, answer["Location"], omar.unread) == (302, "/jobs/", 0)


def test_all_is_read_at_once(client, omar):
    tell(omar)
    tell(omar)

    client.post(reverse("inbox-read"))

    assert not Notification.objects.unread().exists()


@pytest.mark.parametrize("count", [1, 3])
def test_the_inbox_costs_the_same_for_any_number(client, omar, count, django_assert_num_queries):
    for _number in range(count):
        tell(omar)

    with django_assert_num_queries(6):  # session, user, count, rows; frame (2)
        client.get("/inbox/")


def test_an_unchanged_inbox_is_not_sent_again(client, omar):
    tell(omar)
    tag = client.get("/inbox/")["ETag"]

    again = client.get("/inbox/", headers={"HX-Request": "true", "If-None-Match": tag})

    assert again.status_code == 304


def test_what_people_choose_is_kept(client, omar):
    client.post(
        CHOICES,
        {"inbox": ["job_failed"], "mail": ["job_ended"], "quiet_from": 22, "quiet_until": 7},
    )

    ways = ways_of([omar])
    times = MailTimes.objects.get(user=omar)
    assert {
        kind: (way.in_inbox, way.by_mail) for (_user, kind), way in ways.items() if way != (0, 0)
    } == {
        "job_started": (False, False),
        "job_ended": (False, True),
        "job_failed": (True, False),
        "job_preempted": (False, False),
        "request_decided": (False, False),
        "quota_ending": (False, False),
        "webhook_dead": (False, False),
    }
    assert (times.daily_at, times.quiet_from, times.quiet_until) == (None, 22, 7)


def test_half_of_the_quiet_hours_is_refused(client, omar):
    answer = client.post(CHOICES, {"quiet_from": 22})

    assert answer.status_code == 422
    assert answer.context["form"].errors == {
        "quiet_until": ["Say both when quiet begins and when it ends, or neither."]
    }


def test_what_only_operators_are_told_is_theirs_to_choose(client, omar):
    kinds = [kind for kind, _ways in client.get(CHOICES).context["rows"]]
    client.force_login(UserFactory(is_operator=True))
    theirs = [kind for kind, _ways in client.get(CHOICES).context["rows"]]

    assert set(theirs) - set(kinds) == {NotificationKind.REQUEST_WAITING}


def test_who_did_not_choose_has_the_usual(client, omar):
    rows = client.get(CHOICES).context["rows"]

    assert [ways for _kind, ways in rows] == [usual_ways(kind) for kind, _ways in rows]


@pytest.mark.parametrize(
    ("sends", "address", "says"),
    [
        (False, "omar@example.org", "This portal sends no mail"),
        (True, "", "Your account has no mail address"),
        (True, "omar@example.org", "Mail goes to omar@example.org."),
    ],
)
def test_whether_mail_reaches_the_reader_is_said(client, omar, settings, sends, address, says):
    settings.SENDS_MAIL = sends
    omar.email = address
    omar.save()

    assert says in client.get(CHOICES).content.decode()
