"""Announcements: operators write them, everybody reads them on every page and may dismiss them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.core.models import AuditEvent
from tenants.models import Announcement
from tests.factories import AnnouncementFactory, MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = "/admin/announcements/"
DAY = timedelta(days=1)


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator():
    return signed_in(UserFactory(username="root", is_operator=True))


@pytest.fixture
def reader():
    return signed_in(MembershipFactory(role=3).user)


def announce(**given):
    now = timezone.now()
    return AnnouncementFactory(**{"from_at": now - DAY, "until_at": now + DAY} | given)


def form(**given):
    now = timezone.now()
    return {
        "text": "Power goes at 18:00.",
        "text_zh": "",
        "level": "urgent",
        "from_at": f"{now - DAY:%Y-%m-%dT%H:%M}",
        "until_at": f"{now + DAY:%Y-%m-%dT%H:%M}",
    } | given


def levels(client, **headers):
    page = client.get("/jobs/", headers=headers)
    return [banner["level"] for banner in page.context["banners"]()]


def test_what_an_operator_writes_is_on_every_page_of_everybody_and_on_record(operator, reader):
    operator.post(f"{PAGE}new/", form())

    assert "Power goes at 18:00." in reader.get("/jobs/").content.decode()
    event = AuditEvent.objects.get(action="make_announcement")
    assert (event.actor.username, event.after["level"]) == ("root", "urgent")


def test_it_is_shown_in_its_time_alone_the_most_urgent_first(reader):
    now = timezone.now()
    announce(level="info")
    announce(level="urgent")
    announce(level="warning", from_at=now + DAY, until_at=now + 2 * DAY)
    announce(level="warning", from_at=now - 2 * DAY, until_at=now - DAY)

    assert levels(reader) == ["urgent", "info"]


@pytest.mark.parametrize(
    ("language", "text_zh", "says"),
    [
        ("zh-hans", "存储很慢。", "<span>存储很慢。"),
        ("zh-hans", "", '<span lang="en">The storage is slow today.'),
        ("en", "存储很慢。", "<span>The storage is slow today."),
    ],
)
def test_each_reads_it_in_their_language(reader, language, text_zh, says):
    announce(text_zh=text_zh)

    page = reader.get("/jobs/", headers={"Accept-Language": language}).content.decode()

    assert says in page


def test_who_dismisses_it_is_left_alone_until_it_says_something_else(operator, reader):
    row = announce(level="info")

    answer = reader.post(f"/announcements/{row.pk}/dismiss/", {"next": "/queue/"})
    dismissed = levels(reader)
    operator.post(f"{PAGE}{row.pk}/", form(seen=row.version))

    assert (answer.status_code, answer.url) == (302, "/queue/")
    assert dismissed == []
    assert levels(reader) == ["urgent"]


def test_dismissing_leads_nowhere_else(reader):
    row = announce()

    answer = reader.post(f"/announcements/{row.pk}/dismiss/", {"next": "https://evil.example/"})

    assert answer.url == "/"


def test_a_change_that_met_another_is_not_made(operator):
    row = announce()

    operator.post(f"{PAGE}{row.pk}/", form(seen=0, text="First."))
    answer = operator.post(f"{PAGE}{row.pk}/", form(seen=0, text="Second."))

    assert answer.status_code == 409
    assert Announcement.objects.get().text == "First."


def test_one_that_runs_is_ended_and_one_to_come_is_gone(operator, reader):
    now = timezone.now()
    running, coming = announce(), announce(from_at=now + DAY, until_at=now + 2 * DAY)

    for row in (running, coming):
        operator.post(f"{PAGE}{row.pk}/end/")

    assert levels(reader) == []
    assert list(Announcement.objects.values_list("pk", flat=True)) == [running.pk]
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["end_announcement", "remove_announcement"]


@pytest.mark.parametrize(
    "wrong", [{"text": " "}, {"until_at": "2026-01-01T00:00"}, {"from_at": "1066-01-01T00:00"}]
)
def test_what_makes_no_sense_is_said_beside_its_field(operator, wrong):
    answer = operator.post(f"{PAGE}new/", form(**wrong))

    assert answer.status_code == 422
    assert answer.context["form"].errors
    assert not Announcement.objects.exists()


@pytest.mark.parametrize("rest", ["", "new/", "1/"])
def test_only_operators_write_them(reader, rest):
    AnnouncementFactory(pk=1)

    assert reader.get(f"{PAGE}{rest}").status_code == 403


def test_a_leads_post_ends_nothing(reader):
    row = announce()

    assert reader.post(f"{PAGE}{row.pk}/end/").status_code == 403
    assert levels(reader) == ["info"]
