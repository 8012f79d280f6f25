"""T1. A lead asks for quota: a draft, the room beside it, every step on record, and it is there."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import (
    OPERATOR,
    actions_of,
    ask_for_quota,
    begin_request,
    open_approval,
    quota_of,
    wait_for_request,
)

pytestmark = [pytest.mark.thread, pytest.mark.browser]

MODEL = "A100-80GB"


def test_t1_a_draft_is_kept_submitted_approved_and_in_force(stack, person):
    lead = person("elena-rossi")
    before, _ = quota_of(stack, "vision", MODEL)
    begin_request(lead, gpus=8, model=MODEL)
    expect(lead.locator(f"#beside li[data-flavor='{MODEL}']").first).to_contain_text("of 32")
    lead.locator("#save-draft").click()
    wait_for_request(lead, "draft")
    where = lead.url
    lead.locator("#edit").click()
    lead.locator("#id_gpus").fill("2")
    lead.locator("#save-draft").click()
    lead.locator("#submit-draft").click()
    wait_for_request(lead, "submitted")
    asked_before = stack.value("SELECT cycle_asked FROM topology_cluster")
    operator = person(OPERATOR)

    open_approval(operator, where)
    expect(operator.locator("#decide")).to_contain_text("it fits")
    operator.locator("#approve").click()

    wait_for_request(operator, "active")
    assert quota_of(stack, "vision", MODEL) == (before + 2, 2)
    assert stack.value("SELECT cycle_asked FROM topology_cluster") > asked_before
    lead.goto(where)
    wait_for_request(lead, "active")
    steps = actions_of(lead)
    assert steps[:3] == ["start", "approve", "submit"]
    assert steps[-1] == "create"
    lead.goto(f"{stack.options.address}/tenants/vision/")
    cells = lead.locator(f'#quota tr[data-flavor="{MODEL}"] td').all_inner_texts()
    assert cells[:5] == [str(before + 2), "0", "0", "0", str(before + 2)]


def test_t1_a_request_is_withdrawn_by_who_asked(person):
    lead = person("elena-rossi")
    ask_for_quota(lead, gpus=1, model=MODEL)

    lead.locator("#withdraw").click()

    wait_for_request(lead, "withdrawn")
