"""What operators see and decide: approvals, the decision beside the calendar, the calendar."""

import re
from datetime import timedelta

import pytest

from scheduling.web.quota.drawing import draw
from tenants.models import Quota, QuotaRequest
from tenants.snapshots import read_calendar
from tests.factories import QuotaGrantFactory, QuotaRequestFactory
from tests.scheduling.web.quota.conftest import DAY
from tests.scheduling.web.quota.test_requests import NUMBERS, text_of


def test_approvals_show_what_waits_oldest_first_and_what_is_on_its_way(as_person, scene, ask):
    later, first = ask(), ask()
    QuotaRequest.objects.filter(pk=first.pk).update(submitted_at=scene.wall - timedelta(days=3))
    scheduled = QuotaGrantFactory(request__state="scheduled", request__flavor=scene.flavors[0])
    ask(draft=True)
    QuotaRequestFactory(state="active")

    response = as_person("root").get("/admin/approvals/")

    assert NUMBERS.findall(response.content.decode()) == [
        first.public_id,
        later.public_id,
        scheduled.request.public_id,
    ]
    assert "2 requests wait for a decision" in text_of(response)


@pytest.mark.parametrize("who", ["mei", "omar", "newcomer"])
def test_approvals_are_operators(as_person, who):
    client = as_person(who)

    assert client.get("/admin/approvals/").status_code == 403
    assert "/admin/approvals/" not in client.get("/").content.decode()


def test_one_click_approves_what_fits(as_person, scene, ask, offer_form):
    request = ask()
    client = as_person("root")

    page = client.get(f"/quota/requests/{request.pk}/")
    client.post(f"/quota/requests/{request.pk}/act/", offer_form(request, "approve"))

    assert (
        "it fits. On 2026-03-02, the tightest day, 4 of 8 are left to guarantee after it."
        in text_of(page)
    )
    quota = Quota.objects.get(tenant=scene.language, flavor=scene.flavors[0])
    assert (quota.nominal, quota.granted) == (20, 4)


def test_too_much_is_warned_of_and_refused_and_what_was_written_is_kept(
    as_person, scene, ask, offer_form
):
    request = ask(gpus=10)
    client = as_person("root")

    page = client.get(f"/quota/requests/{request.pk}/")
    answer = client.post(
        f"/quota/requests/{request.pk}/act/", offer_form(request, "approve", note="my words")
    )

    assert "8 are left to guarantee, 2 too few" in text_of(page)
    assert answer.status_code == 422
    assert "On 2026-03-02 8 H100-SXM are left to guarantee; this takes 10." in text_of(answer)
    assert "my words" in answer.content.decode()
    request.refresh_from_db()
    assert request.state == "submitted"


def test_the_second_of_two_operators_is_told_who_was_first(as_person, ask, offer_form):
    request = ask()
    act = f"/quota/requests/{request.pk}/act/"
    seen = offer_form(request, "reject", note="no")
    as_person("root").post(act, offer_form(request, "ask", note="Why?"))

    answer = as_person("root").post(act, seen)

    assert answer.status_code == 409
    assert "question asked, by root" in text_of(answer)


def test_a_grant_is_taken_back_with_words(as_person, scene, ask, offer_form):
    request = ask()
    act = f"/quota/requests/{request.pk}/act/"
    client = as_person("root")
    client.post(act, offer_form(request, "approve"))

    silent = client.post(act, {"action": "revoke", "note": ""})
    client.post(act, {"action": "revoke", "note": "the nodes were sold"})

    assert silent.status_code == 422
    request.refresh_from_db()
    assert request.state == "revoked"
    assert "the nodes were sold" in text_of(as_person("mei").get(f"/quota/requests/{request.pk}/"))


def test_the_calendar_shows_everybody_how_much_and_operators_to_whom(as_person, scene, ask):
    granted = QuotaGrantFactory(
        request=ask(gpus=5, starts_on=DAY, ends_on=DAY + timedelta(days=9)),
    )
    QuotaRequest.objects.filter(pk=granted.request_id).update(state="active")

    for_all = text_of(as_person("vera").get("/cluster/calendar/"))
    for_operators = text_of(as_person("root").get("/cluster/calendar/"))

    assert "2026-03-02 – 2026-03-11 29 3" in for_all
    assert granted.request.public_id not in for_all
    assert granted.request.public_id in for_operators


def test_a_picture_says_the_same_as_its_rows(scene, ask):
    request = ask(gpus=10, starts_on=DAY + timedelta(days=10), ends_on=DAY + timedelta(days=19))

    picture = draw(read_calendar(scene.flavors[0]), DAY, request)

    rows = [(row.first - DAY, row.promised, row.free, row.left) for row in picture.stretches]
    assert [(days.days, *numbers) for days, *numbers in rows] == [
        (0, 24, 8, 8),
        (10, 24, 8, -2),
        (20, 24, 8, 8),
    ]
    assert [block.kind for block in picture.blocks] == ["promised", "promised", "asked", "promised"]
    assert (picture.free, picture.left, picture.short) == (8, 0, 2)
    assert picture.tightest == DAY + timedelta(days=10)
    asked = picture.blocks[2]
    assert asked.y < picture.capacity_y < asked.y + asked.height  # it sticks out above what is


def test_a_picture_ends_although_a_grant_lasts_for_years(scene, ask):
    request = ask(ends_on=DAY + timedelta(days=1000))

    picture = draw(read_calendar(scene.flavors[0]), DAY, request)

    assert picture.stretches[-1].last == DAY + timedelta(days=400)
    assert len(picture.labels) <= 7
    assert sum(block.width for block in picture.blocks if block.kind != "asked") == pytest.approx(
        100
    )


def test_home_tells_operators_and_leads_what_there_is_to_do(as_person, scene, ask):
    ask()
    draft = ask(draft=True)

    for_operators = as_person("root").get("/").content.decode()
    for_leads = text_of(as_person("mei").get("/"))
    for_others = text_of(as_person("omar").get("/"))

    assert re.search(r'id="approvals"><a [^>]*>1</a>', for_operators)
    assert f"{draft.public_id} (Language): draft" in for_leads.replace(" )", ")")
    assert draft.public_id not in for_others
