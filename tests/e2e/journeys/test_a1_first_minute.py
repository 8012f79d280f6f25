"""A1. An operator's first minute: from the link in the terminal to an approved request."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import OPERATOR, quota_of, wait_for_request

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_a1_an_operator_sees_what_is_to_do_does_it_and_finds_how_to_connect(stack, person):
    operator = person(OPERATOR)
    before, _ = quota_of(stack, "speech", "L40S")

    expect(operator.locator("#demo-ribbon")).to_contain_text("60×")
    expect(operator.locator("#home-says")).to_contain_text("96 of 96 GPUs are serving")
    expect(operator.locator("#map-head")).to_be_visible()
    operator.locator("#approvals a").click()
    operator.locator("#waiting tr[data-state=submitted] a.name").first.click()
    expect(operator.locator("#decide")).to_contain_text("it fits")
    operator.locator("#approve").click()

    wait_for_request(operator, "active")
    assert quota_of(stack, "speech", "L40S") == (before + 4, 4)

    operator.locator("nav.rail").get_by_role("link", name="Clusters").click()
    operator.get_by_role("link", name="Connect a cluster").click()
    operator.get_by_text("The role, to be applied by kubectl").click()
    expect(operator.locator("#role")).to_contain_text("kind: ClusterRole")
    operator.locator("#id_name").fill("Nobody there")
    operator.locator("#id_slug").fill("nobody-there")
    operator.locator("#id_way").select_option("file")
    operator.locator("#id_path").fill("/nowhere/kubeconfig")
    operator.locator("#save").click()
    expect(operator.locator("#form-errors")).to_be_visible()
    assert stack.value("SELECT count(*) FROM topology_cluster") == 1
