"""A2. An operator works the requests: asks back, offers less than is asked for, rejects."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.conftest import PATIENCE_SECONDS
from tests.e2e.journeys.steps import (
    OPERATOR,
    actions_of,
    ask_for_quota,
    open_approval,
    quota_of,
    wait_for_request,
)

pytestmark = [pytest.mark.thread, pytest.mark.browser]

MODEL = "A100-80GB"  # of which the demo leaves eight to ask for


def test_a2_what_does_not_fit_is_asked_about_and_answered_with_an_offer(stack, person):
    lead = person("samuel-okafor")
    before, _ = quota_of(stack, "speech", MODEL)
    where = ask_for_quota(lead, gpus=16, model=MODEL)
    operator = person(OPERATOR)

    open_approval(operator, where)
    expect(operator.locator("#decide")).to_contain_text("it does not fit")
    operator.locator("#decide-form textarea").fill("Would two do to begin with?")
    operator.locator("#ask").click()
    wait_for_request(operator, "needs_info")
    lead.goto(where)
    lead.locator("#answer-note").fill("For the first month, yes.")
    lead.locator("button[value=answer]").click()
    wait_for_request(lead, "in_review")

    operator.goto(where)
    expect(operator.locator("#events")).to_contain_text("For the first month, yes.")
    operator.locator("#decide-form input[name$=gpus]").first.fill("2")
    operator.locator("#decide-form textarea").fill("Two to begin with.")
    operator.locator("#counter").click()
    wait_for_request(operator, "countered")
    lead.goto(where)
    expect(lead.locator("#events")).to_contain_text("Two to begin with.")
    lead.locator("button[value=accept]").click()

    wait_for_request(lead, "active")
    assert quota_of(stack, "speech", MODEL) == (before + 2, 2)
    assert actions_of(lead) == ["start", "accept", "counter", "answer", "ask", "submit", "create"]


def test_a2_a_request_is_rejected_with_a_reason_that_its_lead_reads_in_the_inbox(stack, person):
    lead = person("samuel-okafor")
    where = ask_for_quota(lead, gpus=64, model=MODEL)
    operator = person(OPERATOR)

    open_approval(operator, where)
    operator.locator("#reject").click()
    expect(operator.locator("#form-errors")).to_be_visible()  # it needs a reason
    operator.locator("#decide-form textarea").fill("There are not as many.")
    operator.locator("#reject").click()
    wait_for_request(operator, "rejected")

    number = where.rstrip("/").rpartition("/")[2]
    told = lead.locator("main").get_by_role("link", name=f"Q-{number}").first
    lead.locator("#inbox-link").click()

    def is_told():
        lead.reload()
        return told.count() > 0

    stack.wait_until(is_told, within=PATIENCE_SECONDS, what="the lead is told of the rejection")
    told.click()
    wait_for_request(lead, "rejected")
    expect(lead.locator("#events")).to_contain_text("There are not as many.")
