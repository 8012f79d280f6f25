"""Asking for quota in the browser: the form, the list, and the page of one request."""

import re
from datetime import timedelta

import pytest

from tenants.models import Quota, QuotaRequest
from tenants.states import RequestState
from tests.factories import QuotaGrantFactory, QuotaRequestFactory, StarterRuleFactory
from tests.scene import add_requests
from tests.scheduling.web.quota.conftest import DAY

NUMBERS = re.compile(r'<tr id="(Q-\d+)"')


def text_of(response):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def test_a_lead_sends_the_form_and_lands_on_the_request(as_person, sent_form):
    response = as_person("mei").post(
        "/quota/requests/new/", sent_form | {"action": "submit"}, follow=True
    )

    request = QuotaRequest.objects.get()
    assert response.redirect_chain == [(f"/quota/requests/{request.pk}/", 302)]
    assert (request.state, request.gpus, request.tenant.slug) == ("submitted", 4, "nlp")
    assert "It waits for an operator." in text_of(response)


def test_a_form_that_is_sent_twice_is_one_request(as_person, sent_form):
    client = as_person("mei")
    sent = sent_form | {"action": "submit", "once": "abc"}

    first = client.post("/quota/requests/new/", sent)
    second = client.post("/quota/requests/new/", sent)
    other = client.post("/quota/requests/new/", sent | {"once": "def"})

    assert first["Location"] == second["Location"] != other["Location"]
    assert QuotaRequest.objects.count() == 2


def test_a_draft_is_kept_and_edited_and_submitted(as_person, sent_form):
    client = as_person("mei")
    client.post("/quota/requests/new/", sent_form | {"action": "draft", "justification": ""})
    draft = QuotaRequest.objects.get()

    edited = sent_form | {"action": "submit", "gpus": 6}
    client.post(f"/quota/requests/{draft.pk}/edit/", edited)

    draft.refresh_from_db()
    assert (draft.state, draft.gpus) == ("submitted", 6)
    assert client.get(f"/quota/requests/{draft.pk}/edit/").status_code == 404


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"justification": "please"}, "Say in 40 characters or more what it is for."),
        ({"gpus": 0, "borrowing_gpus": 0}, "Ask for at least one GPU."),
        ({"ends_on": "2026-01-01"}, "The last day is before the first."),
        ({"gpu_memory_gib": "", "flavor": "", "gpus": "x"}, "Enter a whole number."),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_is_kept(
    as_person, sent_form, said, words
):
    response = as_person("mei").post(
        "/quota/requests/new/", sent_form | {"action": "submit"} | said
    )

    assert response.status_code == 422
    assert words in text_of(response)
    assert not QuotaRequest.objects.exists()


def test_a_researcher_is_told_who_may_ask(as_person, sent_form):
    client = as_person("omar")

    page = client.get("/quota/requests/new/")
    sent = client.post("/quota/requests/new/", sent_form | {"action": "submit"})

    assert "Only leads ask for quota." in text_of(page)
    assert sent.status_code == 422
    assert not QuotaRequest.objects.exists()


def test_beside_the_form_stand_what_is_free_and_the_tenants_record(as_person, scene):
    StarterRuleFactory(flavor=scene.flavors[2], most_gpus=2, most_days=30)

    shown = text_of(as_person("mei").get("/quota/requests/new/"))

    assert "H100-SXM 8 of 32" in shown  # 32 installed, 16 + 8 guaranteed
    assert "The record of Language" in shown
    assert "Up to 2 L40S for 30 days, once per tenant" in shown


def test_the_form_asks_again_with_its_days_alone(as_person):
    """A justification of thousands of characters has no room in an address."""
    page = as_person("mei").get("/quota/requests/new/").content.decode()

    assert 'hx-params="tenant,cluster,starts_on,ends_on"' in page


def test_other_days_are_answered_with_what_is_free_then(as_person, scene, ask):
    granted = ask(gpus=8, starts_on=DAY + timedelta(days=30))
    QuotaRequest.objects.filter(pk=granted.pk).update(state="scheduled")
    QuotaGrantFactory(request=granted)
    client = as_person("mei")

    def free(first, last):
        asked = {"tenant": "nlp", "cluster": "demo", "starts_on": first, "ends_on": last}
        answer = client.get("/quota/requests/new/", asked, headers={"HX-Request": "true"})
        return re.search(r"H100-SXM (\d+) of 32 fewest on (\S+)", text_of(answer)).groups()

    assert free(DAY, DAY + timedelta(days=10)) == ("8", DAY.isoformat())
    assert free(DAY, DAY + timedelta(days=60)) == ("0", (DAY + timedelta(days=30)).isoformat())


def test_what_a_rule_covers_is_quota_before_the_page_is_back(as_person, scene, sent_form):
    StarterRuleFactory(flavor=scene.flavors[0], most_gpus=8, most_days=200)

    response = as_person("mei").post(
        "/quota/requests/new/", sent_form | {"action": "submit"}, follow=True
    )

    assert "approved at once, by the starter rule" in text_of(response)
    quota = Quota.objects.get(tenant=scene.language, flavor=scene.flavors[0])
    assert (quota.nominal, quota.granted) == (20, 4)


def test_the_list_shows_ones_own_tenants_newest_first(as_person, ask):
    first, second = ask(), ask(draft=True)
    QuotaRequestFactory()

    shown = as_person("omar").get("/quota/requests/").content.decode()

    assert NUMBERS.findall(shown) == [second.public_id, first.public_id]


@pytest.mark.parametrize(
    ("group", "states"),
    [
        ("", {"draft", "submitted", "scheduled", "closed"}),
        ("yours", {"draft"}),
        ("operators", {"submitted"}),
        ("granted", {"scheduled"}),
        ("ended", {"closed"}),
        ("nonsense", {"draft", "submitted", "scheduled", "closed"}),
    ],
)
def test_a_chip_narrows_the_list(as_person, scene, group, states):
    for state in ("draft", "submitted", "scheduled", "closed"):
        QuotaRequestFactory(tenant=scene.language, flavor=scene.flavors[0], state=state)

    shown = as_person("mei").get("/quota/requests/", {"group": group}).content.decode()

    assert set(re.findall(r'<tr id="Q-\d+" data-state="(\w+)"', shown)) == states


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_any_number(as_person, scene, count, django_assert_num_queries):
    for _each in range(count):
        QuotaGrantFactory(request__tenant=scene.language, request__flavor=scene.flavors[0])
    client = as_person("mei")

    # session, user, clusters, announcements; counts, count, rows; whether the reader may ask
    with django_assert_num_queries(8):
        client.get("/quota/requests/")


def test_a_page_costs_few_queries(as_person, scene, ask, django_assert_max_num_queries):
    request = ask()

    for who, address in (
        ("root", f"/quota/requests/{request.pk}/"),
        ("mei", f"/quota/requests/{request.pk}/"),
        ("mei", "/quota/requests/new/"),
        ("mei", "/tenants/nlp/"),
        ("mei", "/tenants/nlp/memberships/"),
        ("root", "/admin/approvals/"),
        ("mei", "/cluster/calendar/"),
    ):
        client = as_person(who)
        with django_assert_max_num_queries(25):
            assert client.get(address).status_code == 200


def test_a_question_is_answered_on_the_page(as_person, ask, offer_form):
    request = ask()
    as_person("root").post(
        f"/quota/requests/{request.pk}/act/", offer_form(request, "ask", note="Which model?")
    )
    client = as_person("mei")

    page = client.get(f"/quota/requests/{request.pk}/")
    request.refresh_from_db()
    client.post(
        f"/quota/requests/{request.pk}/act/",
        {"action": "answer", "seen": request.version, "note": "One of 7 B."},
    )

    assert "Which model?" in text_of(page)
    request.refresh_from_db()
    assert request.state == "in_review"


def test_an_offer_is_taken_on_the_page(as_person, scene, ask, offer_form):
    request = ask()
    act = f"/quota/requests/{request.pk}/act/"
    as_person("root").post(act, offer_form(request, "counter", gpus=2, note="half of it"))
    request.refresh_from_db()
    shown = text_of(as_person("mei").get(f"/quota/requests/{request.pk}/"))

    as_person("mei").post(act, {"action": "accept", "seen": request.version})

    request.refresh_from_db()
    assert "2026-03-02 – 2026-05-30 24 8 6" in shown  # the offer, not what was asked for
    assert (request.state, request.grant.gpus) == ("active", 2)


def test_handing_back_gets_thanks_and_says_what_stays_above_the_quota(
    as_person, scene, ask, offer_form
):
    request = ask()
    act = f"/quota/requests/{request.pk}/act/"
    as_person("root").post(act, offer_form(request, "approve"))
    Quota.objects.filter(tenant=scene.language, flavor=scene.flavors[0]).update(nominal=16)
    request.refresh_from_db()

    response = as_person("mei").post(
        act, {"action": "hand_back", "seen": request.version, "gpus": "3"}, follow=True
    )

    shown = text_of(response)
    assert "Thank you: 3 GPUs are back for everybody." in shown
    assert "3 in use are above the quota now" in shown  # 16 run on H100
    assert scene.jobs["llama-70b-pretrain"].state == "running"


def test_a_grant_is_changed_from_its_page(as_person, scene, ask, offer_form):
    request = ask()
    as_person("root").post(f"/quota/requests/{request.pk}/act/", offer_form(request, "approve"))
    client = as_person("mei")

    change = client.get(f"/quota/requests/new/?replaces={request.pk}")
    renew = client.get(f"/quota/requests/new/?replaces={request.pk}&renew=1")

    assert f'value="{request.ends_on}"' in change.content.decode()
    begins = request.ends_on + timedelta(days=1)
    assert f'name="starts_on" value="{begins}"' in renew.content.decode()
    assert "What came of it so far" in text_of(change)


def test_a_viewer_of_the_tenant_sees_and_does_nothing(as_person, ask):
    request = ask()
    client = as_person("omar")

    page = client.get(f"/quota/requests/{request.pk}/")
    act = client.post(f"/quota/requests/{request.pk}/act/", {"action": "withdraw"})

    assert page.status_code == 200
    assert 'name="action"' not in page.content.decode()
    assert act.status_code == 403


@pytest.mark.parametrize("query", ["page=0", "page=999999", "tenant=%00", "group=%00", "tenant=x"])
def test_a_list_forgives_what_it_does_not_understand(as_person, query):
    assert as_person("mei").get(f"/quota/requests/?{query}").status_code == 200


@pytest.mark.parametrize("number", [10**9, 10**30])
def test_a_number_that_is_none_is_not_there(as_person, number):
    assert as_person("root").get(f"/quota/requests/{number}/").status_code == 404


def test_a_step_that_is_none_is_not_there(as_person, ask):
    answer = as_person("mei").post(f"/quota/requests/{ask().pk}/act/", {"action": "explode"})

    assert answer.status_code == 404


def test_a_tenant_that_one_may_not_see_is_as_one_that_never_was(as_person, scene, ask):
    QuotaRequestFactory(tenant=scene.vision, flavor=scene.flavors[0])
    client = as_person("mei")

    theirs = client.get("/quota/requests/?tenant=vision").content.decode()
    nobodys = client.get("/quota/requests/?tenant=nobody").content.decode()

    assert NUMBERS.findall(theirs) == []
    shown = [page.split('<main id="main"')[1].split("</main>")[0] for page in (theirs, nobodys)]
    assert shown[0].replace("vision", "nobody") == shown[1]


def test_what_people_write_is_shown_as_text(as_person, scene, ask):
    attack = "<script>alert(1)</script>" * 2
    request = ask(justification=attack)

    shown = as_person("root").get(f"/quota/requests/{request.pk}/").content.decode()

    assert attack not in shown
    assert "&lt;script&gt;alert(1)" in shown


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//"])
def test_a_plan_is_an_address_of_the_web(as_person, sent_form, address):
    answer = as_person("mei").post(
        "/quota/requests/new/", sent_form | {"action": "submit", "plan_url": address}
    )

    assert answer.status_code == 422
    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize("who", ["mei", "omar", "root"])
def test_every_state_has_a_page_with_a_sentence_of_its_own(as_person, scene, who):
    client = as_person(who)
    said = {}
    for state, request in add_requests(scene).items():
        response = client.get(f"/quota/requests/{request.pk}/")
        assert response.status_code == 200
        said[state] = re.search(r'id="because">(.+?)</p>', response.content.decode())[1]

    assert set(said) == set(RequestState)
    alike = {"submitted", "in_review"}, {"approved", "scheduled"}
    assert len(set(said.values())) == len(said) - sum(len(states) - 1 for states in alike)
