"""T3. A lead changes a grant, extends it, and hands back what is not needed."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import (
    OPERATOR,
    ask_for_quota,
    open_approval,
    quota_of,
    wait_for_request,
)

pytestmark = [pytest.mark.thread, pytest.mark.browser]

MODEL = "A100-80GB"


def approve(operator, where):
    open_approval(operator, where)
    operator.locator("#approve").click()
    wait_for_request(operator, "active")


def test_t3_a_grant_is_changed_takes_the_place_of_the_old_one_and_is_handed_back(stack, person):
    lead, operator = person("mei-lin"), person(OPERATOR)
    before, _ = quota_of(stack, "nlp", MODEL)
    first = ask_for_quota(lead, gpus=3, model=MODEL)
    approve(operator, first)
    assert quota_of(stack, "nlp", MODEL) == (before + 3, 3)

    lead.goto(first)
    lead.locator("#change").click()
    expect(lead.locator("#id_gpus")).to_have_value("3")
    lead.locator("#id_gpus").fill("2")
    lead.locator("#submit-request").click()
    wait_for_request(lead, "submitted")
    second = lead.url
    approve(operator, second)
    lead.goto(first)
    wait_for_request(lead, "closed")
    assert quota_of(stack, "nlp", MODEL) == (before + 2, 2)

    lead.goto(f"{stack.options.address}/tenants/nlp/")  # and now with the keyboard alone
    lead.locator("#tenant-requests tr[data-state=active] a").first.focus()
    lead.keyboard.press("Enter")
    lead.locator("#back-gpus").focus()
    lead.keyboard.press("Control+a")
    lead.keyboard.type("1")
    lead.keyboard.press("Tab")
    lead.keyboard.press("Enter")
    expect(lead.get_by_text("Thank you: 1 GPU is back for everybody.")).to_be_visible()
    assert quota_of(stack, "nlp", MODEL) == (before + 1, 1)
