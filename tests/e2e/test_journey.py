"""The thin thread as a person sees it: a browser on the whole product, nothing in between."""

import re

import pytest
from playwright.sync_api import expect

from portal.embedded import first_steps
from tests.thread.stack import running_stack

pytestmark = [pytest.mark.thread, pytest.mark.browser]

SPEED = 60
PATIENCE = 60_000  # milliseconds


@pytest.fixture(scope="module")
def stack():
    with pytest.MonkeyPatch.context() as patch:  # services of our own, whatever the machine has
        patch.delenv("DATABASE_URL", raising=False)
        patch.delenv("REDIS_URL", raising=False)
        with running_stack(speed=SPEED) as stack:
            yield stack


@pytest.fixture
def person(stack, page):
    """Somebody who followed the sign-in link, in a browser that must not complain."""
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(first_steps.sign_in_link(stack.options, stack.env))
    yield page
    assert complaints == []


def submit(page, name, *, members, gpus, run_seconds):
    page.get_by_role("link", name="New job").first.click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Tenant", exact=True).select_option("robotics")
    page.get_by_label("Members").fill(str(members))
    page.get_by_label("GPUs per member").fill(str(gpus))
    page.get_by_label("Seconds to run").fill(str(run_seconds))
    page.locator("#submit-job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_gang_is_submitted_seen_starting_and_seen_finished_without_reloading(person):
    submit(person, "two of eight", members=2, gpus=8, run_seconds=600)
    person.evaluate("window.sameDocument = true")

    head = person.locator("#job")
    expect(head).to_have_attribute("data-state", "running", timeout=PATIENCE)
    nodes = person.locator("#job").get_by_role("link", name=re.compile("^(h100|a100|l40s)"))
    assert len(set(nodes.all_inner_texts())) == 2
    expect(head).to_have_attribute("data-state", "succeeded", timeout=PATIENCE)

    steps = person.locator("#events li").evaluate_all("items => items.map(i => i.dataset.state)")
    assert sorted(steps) == ["queued", "running", "starting", "succeeded"]
    expect(person.locator("#ran")).to_have_text(re.compile("10 min"))
    assert person.evaluate("window.sameDocument") is True


def test_a_running_job_is_cancelled_and_its_gpus_come_back(person, stack):
    submit(person, "regretted", members=1, gpus=2, run_seconds=80_000)
    head = person.locator("#job")
    expect(head).to_have_attribute("data-state", "running", timeout=PATIENCE)

    person.locator("#cancel").click()
    person.locator("#confirm-cancel").click()

    expect(head).to_have_attribute("data-state", "cancelled", timeout=PATIENCE)
    active = "SELECT count(*) FROM scheduling_placement WHERE released_at IS NULL"
    stack.wait_until(lambda: stack.value(active) == 0, within=20, what="the GPUs are given back")


def test_a_job_nobody_can_hold_says_so_in_a_sentence(person):
    submit(person, "beyond the ceiling", members=12, gpus=8, run_seconds=60)

    because = person.locator("#because")
    expect(because).to_have_text(re.compile(r"\d+ GPU"), timeout=PATIENCE)
    expect(person.locator("#job")).to_have_attribute("data-state", "queued")
