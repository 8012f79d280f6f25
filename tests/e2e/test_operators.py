"""What operators do in a browser, by keys and without script."""

import pytest
from django.test import Client

from tenants.models import Tenant
from tests.factories import CohortFactory
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
