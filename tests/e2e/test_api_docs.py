"""The API's documentation in a real browser, under the policy that forbids inline script."""

import pytest

from tests.factories import MembershipFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_documentation_shows_the_calls_and_breaks_no_policy(live_server, page):
    violations = []
    page.on(
        "console",
        lambda said: violations.append(said.text) if said.type == "error" else None,
    )
    page.on("pageerror", lambda error: violations.append(str(error)))

    page.goto(f"{live_server.url}/api/docs/")
    page.get_by_text("/api/v1/jobs/{public_id}/cancel").wait_for()

    assert page.title() == "Muster API"
    assert violations == []


def test_a_call_made_from_the_documentation_is_its_readers(live_server, page, client):
    member = MembershipFactory(user__username="ada")
    client.force_login(member.user)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value}
    page.context.add_cookies([{**cookie, "url": live_server.url}])
    page.goto(f"{live_server.url}/api/docs/")

    call = page.locator("#operations-me-me_retrieve")
    call.get_by_role("button").first.click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()

    call.get_by_text('"username": "ada"').wait_for()
