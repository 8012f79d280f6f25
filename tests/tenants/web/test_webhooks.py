"""Webhooks in the browser: kept by form, tried, and never shown again."""

import pytest
from django.test import Client

from tenants.models import Role, Webhook
from tenants.services import webhook_wire
from tenants.services.webhook_wire import NotTaken
from tests.factories import MembershipFactory, UserFactory, WebhookFactory

pytestmark = pytest.mark.django_db

PAGE = "/profile/webhooks/"
URL = "https://hook.example.org/T000/very-secret"


def signed_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def wire(monkeypatch):
    """No call leaves; what was posted, or a refusal where one is set."""

    class Wire(list):
        refuse = ""

    wire = Wire()

    def post(url, _body, _headers):
        wire.append(url)
        if wire.refuse:
            raise NotTaken(wire.refuse)

    monkeypatch.setattr(webhook_wire, "post", post)
    monkeypatch.setattr(webhook_wire, "look_at", lambda _url: None)
    return wire


@pytest.fixture
def lead():
    return MembershipFactory(role=Role.LEAD, tenant__slug="nlp")


def form(**given):
    return {"name": "chat", "style": "slack", "url": URL, "kinds": ["job_failed"]} | given


def test_a_person_keeps_one_by_form_and_its_address_is_not_shown_again():
    client = signed_in(UserFactory())

    client.post(PAGE, form(secret="hush-hush"))
    page = client.get(PAGE).content.decode()

    assert Webhook.objects.get().url == URL
    assert 'data-webhook="chat"' in page
    assert "very-secret" not in page
    assert "hush-hush" not in page


def test_a_programs_secret_is_shown_once():
    client = signed_in(UserFactory())

    made = client.post(PAGE, form(style="generic"))
    secret = Webhook.objects.get().secret

    assert secret in made.content.decode()
    assert "no-store" in made["Cache-Control"]
    assert secret not in client.get(PAGE).content.decode()


def test_what_is_wrong_is_said_beside_its_field(monkeypatch):
    monkeypatch.undo()
    client = signed_in(UserFactory())

    answer = client.post(PAGE, form(url="https://127.0.0.1/x"))

    assert answer.status_code == 422
    assert "private network" in answer.content.decode()


def test_it_is_tried_brought_back_and_taken_away(wire):
    hook = WebhookFactory(dead_at="2026-01-01T00:00Z", url=URL)
    client, act = signed_in(hook.user), f"{PAGE}{hook.pk}/act/"

    tried = client.post(act, {"action": "try"}, follow=True).content.decode()
    wire.refuse = "It answered with the status 404."
    failed = client.post(act, {"action": "try"}, follow=True).content.decode()
    client.post(act, {"action": "revive"})
    hook.refresh_from_db()

    assert wire == [URL, URL]
    assert "took the test" in tried
    assert "status 404" in failed
    assert hook.dead_at is None
    client.post(act, {"action": "remove"})
    assert not Webhook.objects.exists()
    assert client.post(act, {"action": "remove"}).status_code == 404


def test_another_action_is_not_there():
    hook = WebhookFactory()

    assert signed_in(hook.user).post(f"{PAGE}{hook.pk}/act/", {"action": "x"}).status_code == 404


def test_leads_keep_a_tenants_and_others_do_not_see_it(lead):
    page = "/tenants/nlp/webhooks/"
    viewer = MembershipFactory(tenant=lead.tenant, role=Role.VIEWER).user

    signed_in(lead.user).post(page, form())
    hook = Webhook.objects.get()

    assert hook.tenant == lead.tenant
    assert 'data-webhook="chat"' in signed_in(lead.user).get(page).content.decode()
    assert signed_in(viewer).get(page).status_code == 403
    assert signed_in(viewer).post(f"{page}{hook.pk}/act/", {"action": "remove"}).status_code == 403
    stranger = signed_in(UserFactory())
    assert stranger.get(page).status_code == 404
    assert stranger.post(f"{page}{hook.pk}/act/", {"action": "remove"}).status_code == 404
    assert Webhook.objects.exists()


def test_a_tenants_is_not_reached_through_another_or_as_ones_own(lead):
    hook = WebhookFactory(user=None, tenant=MembershipFactory().tenant)
    client = signed_in(lead.user)

    for path in (f"/tenants/nlp/webhooks/{hook.pk}/act/", f"{PAGE}{hook.pk}/act/"):
        assert client.post(path, {"action": "remove"}).status_code == 404
    assert client.post(f"{PAGE}{10**30}/act/", {"action": "remove"}).status_code == 404


@pytest.mark.parametrize(("operator", "offered"), [(True, True), (False, False)])
def test_what_only_operators_are_told_is_offered_to_them_alone(operator, offered):
    page = signed_in(UserFactory(is_operator=operator)).get(PAGE).content.decode()

    assert ('value="request_waiting"' in page) == offered
    assert 'value="webhook_dead"' not in page


@pytest.mark.parametrize("count", [1, 3])
def test_the_page_costs_the_same_for_any_number(count, django_assert_num_queries):
    user = UserFactory()
    WebhookFactory.create_batch(count, user=user)
    client = signed_in(user)

    with django_assert_num_queries(5):  # session, user, webhooks, clusters, banners
        client.get(PAGE)
