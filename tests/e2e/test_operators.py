"""What operators do in a browser, by keys and without script."""

from datetime import timedelta

import pytest
from django.test import Client

from portal.core.clock import day_in
from tenants.models import Quota, Tenant
from tests.factories import CohortFactory, QuotaRequestFactory
from tests.scene import make_scene

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def scene(live_server):
    return make_scene()


@pytest.fixture
def as_root(browser, live_server, scene):
    """A function that gives the operator's page; with `script=False` one without JavaScript."""
    contexts = []

    def opened(*, script=True):
        client = Client()
        client.force_login(scene.root)
        context = browser.new_context(java_script_enabled=script)
        session = client.cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        contexts.append(context)
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()


def test_a_tenant_is_moved_by_keys_alone_and_without_script(as_root, live_server):
    CohortFactory(name="lab")
    page = as_root(script=False)

    page.goto(live_server.url + "/admin/cohorts/")
    page.locator("[data-tenant=vision]").get_by_role("link", name="Move").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Cohort", exact=False).first.focus()
    page.keyboard.type("lab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#effects").wait_for()
    assert Tenant.objects.get(slug="vision").cohort.name == "research"
    page.locator("#save").focus()
    page.keyboard.press("Enter")

    page.locator("[data-cohort=lab] [data-tenant=vision]").wait_for()
    assert Tenant.objects.get(slug="vision").cohort.name == "lab"


@pytest.fixture
def asked(scene):
    """Three requests of one GPU each, of a kind of which there is room for all."""
    Quota.objects.filter(flavor=scene.flavors[0]).update(nominal=0)
    now = day_in(scene.cluster, wall=scene.wall)
    return [
        QuotaRequestFactory(
            tenant=scene.language,
            flavor=scene.flavors[0],
            requested_by=scene.mei,
            gpus=1,
            starts_on=now,
            ends_on=now + timedelta(days=30),
            state="submitted",
            submitted_at=scene.wall - timedelta(hours=number),
        )
        for number in (3, 2, 1)
    ]


def states(asked):
    return [type(each).objects.get(pk=each.pk).state for each in asked]


def test_keys_choose_two_requests_and_approve_them_together(as_root, live_server, asked):
    page = as_root()
    page.goto(live_server.url + "/admin/approvals/")

    page.keyboard.press("?")
    page.locator("#keys-help[open]").wait_for()
    page.keyboard.press("Escape")
    page.locator("#keys-help:not([open])").wait_for(state="attached")
    for key in ("j", "x", "j", "j", "x", "k", "k"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == asked[0].public_id
    page.keyboard.press("a")
    page.locator("#fits").wait_for()
    page.locator("#confirm").focus()
    with page.expect_navigation(url="**/admin/approvals/"):
        page.keyboard.press("Enter")

    assert states(asked) == ["active", "submitted", "active"]


def test_keys_lead_to_the_words_of_a_rejection(as_root, live_server, asked):
    page = as_root()
    page.goto(live_server.url + "/admin/approvals/")

    page.keyboard.press("j")
    page.keyboard.press("r")
    page.locator("#decide-form").wait_for()
    page.keyboard.type("jk: not this year.")  # letters are letters where one writes
    page.locator("#reject").focus()
    page.keyboard.press("Enter")

    page.locator("#request-head[data-state=rejected]").wait_for()
    assert asked[0].events.get(action="reject").note == "jk: not this year."


def test_two_requests_are_approved_together_without_script(as_root, live_server, asked):
    page = as_root(script=False)
    page.goto(live_server.url + "/admin/approvals/")

    for each in asked[:2]:
        page.get_by_label(f"Choose {each.public_id}").check()
    page.locator("#approve-chosen").click()
    page.locator("#confirm").click()

    page.locator("#waiting").wait_for()
    assert states(asked) == ["active", "active", "submitted"]
