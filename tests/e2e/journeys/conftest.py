"""The whole product, once for all journeys: processes on the simulated cluster, and browsers."""

import httpx
import pytest
from playwright.sync_api import expect

from portal.embedded import demo, first_steps
from tests.thread.stack import running_stack

SPEED = 60
PATIENCE_SECONDS = 90
OPEN = "SELECT public_id FROM scheduling_job WHERE state NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')"  # noqa: E501 - one statement
REFUSED = "the server responded with a status of 422"  # of a form that has something to mend
HELD = "SELECT count(*) FROM scheduling_placement WHERE released_at IS NULL"


@pytest.fixture(scope="package")
def stack():
    with pytest.MonkeyPatch.context() as patch:  # services of our own, whatever the machine has
        patch.delenv("DATABASE_URL", raising=False)
        patch.delenv("REDIS_URL", raising=False)
        expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
        with running_stack(speed=SPEED) as stack:
            yield stack
        expect.set_options(timeout=5_000)  # as it is without


@pytest.fixture(scope="package")
def operator_api(stack):
    """The demo's operator, as far as the API can tell."""
    with httpx.Client(base_url=stack.options.address, follow_redirects=True, timeout=60) as client:
        client.get(first_steps.sign_in_link(stack.options, stack.env)).raise_for_status()
        client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
        client.headers["Referer"] = stack.options.address
        yield client


@pytest.fixture(autouse=True)
def _free_cluster(stack, operator_api):
    """No journey finds the jobs of another on the GPUs, or in front of its own."""
    for (job,) in stack.rows(OPEN):
        operator_api.post(f"/api/v1/jobs/{job}/cancel")
    stack.wait_until(
        lambda: not stack.rows(OPEN) and stack.value(HELD) == 0,
        within=PATIENCE_SECONDS,
        what="the jobs of the journey before are gone",
    )


@pytest.fixture(scope="package")
def sessions():
    """What the browsers of people keep, by user name: each follows a link once."""
    return {}


@pytest.fixture
def person(stack, browser, sessions):
    """A function that gives somebody's browser, signed in, which must not complain."""
    complaints, contexts = [], []

    def hears(line):
        if line.type == "error" and REFUSED not in line.text:
            complaints.append(line.text)

    def signed_in(name):
        context = browser.new_context(storage_state=sessions.get(name), locale="en-GB")
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", hears)
        page.goto(stack.options.address if name in sessions else _link(stack, name))
        expect(page.locator("#user-menu")).to_be_attached()
        sessions[name] = context.storage_state()
        return page

    yield signed_in
    for context in contexts:
        context.close()
    assert complaints == []


def _link(stack, name):
    """An address that signs that person in, once."""
    arguments = ("manage.py", "sign_in_link", "--user", name)
    program = demo.python(stack.options, stack.env, "sign-in-link", *arguments)
    printed = first_steps.run_to_end(program).split()
    return next(word for word in printed if word.startswith(stack.options.address))
