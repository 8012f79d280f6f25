"""Approving many at once by form: chosen on the list, looked at, then done; no script needed."""

import pytest

from tenants.models import QuotaRequest
from tests.scheduling.web.quota.test_requests import text_of

LIST = "/admin/approvals/"
TOGETHER = LIST + "together/"


def chosen(*requests):
    return [f"{request.pk}:{request.version}" for request in requests]


def states():
    return list(QuotaRequest.objects.order_by("pk").values_list("state", flat=True))


def test_the_list_offers_to_choose_and_says_its_keys(as_person, ask):
    request = ask()

    page = as_person("root").get(LIST).content.decode()

    assert f'name="request" form="together" value="{request.pk}:{request.version}"' in page
    assert "<dialog" in page


def test_what_fits_is_shown_then_approved(as_person, ask):
    requests, client = [ask(), ask()], as_person("root")

    shown = client.post(TOGETHER, {"request": chosen(*requests), "do": "look"})
    assert (shown.status_code, states()) == (200, ["submitted", "submitted"])
    assert "They fit together on every day" in text_of(shown)
    assert "Together: 8 H100-SXM" in text_of(shown)

    done = client.post(TOGETHER, {"request": chosen(*requests), "do": "save", "note": "Good."})
    assert (done.status_code, done["Location"]) == (302, LIST)
    assert states() == ["active", "active"]
    assert set(requests[0].events.values_list("note", flat=True)) >= {"Good."}


def test_what_does_not_fit_together_has_no_button(as_person, ask):
    requests, client = [ask(gpus=5), ask(gpus=5)], as_person("root")

    for do in ("look", "save"):
        answer = client.post(TOGETHER, {"request": chosen(*requests), "do": do})
        assert answer.status_code == 422
        assert "Together they do not fit" in text_of(answer)
        assert 'id="confirm"' not in answer.content.decode()

    assert states() == ["submitted", "submitted"]


def test_one_that_changed_since_the_list_was_read_is_told_of(as_person, ask):
    request, client = ask(), as_person("root")
    said = chosen(request)
    QuotaRequest.objects.update(version=request.version + 1)

    assert client.post(TOGETHER, {"request": said, "do": "save"}).status_code == 409
    assert states() == ["submitted"]


@pytest.mark.parametrize("said", [[], ["x"], ["1"], ["1:x"], ["9" * 30 + ":1"], ["999999:0"]])
def test_nothing_to_approve_is_said(as_person, said):
    answer = as_person("root").post(TOGETHER, {"request": said, "do": "save"}, follow=True)

    assert answer.redirect_chain == [(LIST, 302)]
    assert "Choose requests first." in text_of(answer)


@pytest.mark.parametrize("who", ["mei", "newcomer"])
def test_it_is_for_operators(as_person, ask, who):
    request = ask()

    answer = as_person(who).post(TOGETHER, {"request": chosen(request), "do": "save"})

    assert (answer.status_code, states()) == (403, ["submitted"])


def test_it_is_not_looked_at_by_address(as_person):
    assert as_person("root").get(TOGETHER).status_code == 405
