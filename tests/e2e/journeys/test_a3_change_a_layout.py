"""A3. An operator cuts a node's GPUs into slices, sees that a job gets one, and takes it back."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import OPERATOR

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_a3_a_layout_is_drawn_previewed_rolled_out_verified_and_reverted(stack, person):
    node = stack.value(
        "SELECT max(n.name) FROM topology_node n JOIN topology_resourceflavor f"
        " ON f.id = n.flavor_id WHERE f.name = 'A100-80GB'"
    )
    operator = person(OPERATOR)

    operator.locator("nav.rail").get_by_role("link", name="Layouts").click()
    operator.locator("#new-layout").click()
    operator.locator("#kind").select_option("A100-80GB:8")
    operator.get_by_role("button", name="Take these").click()
    operator.locator("#id_name").fill("Halves")
    part = operator.locator(".layout-part").first
    part.get_by_label("GPUs", exact=True).fill("0-7")
    part.get_by_label("3g.40gb").fill("2")
    part.get_by_label("3g.40gb").press("Tab")
    expect(operator.locator("#verdict-offers")).to_contain_text("16")
    operator.locator("#save").click()
    operator.locator("#roll-out").click()

    operator.get_by_label(node, exact=True).check()
    operator.locator("#see").click()
    expect(operator.locator("#preview-jobs")).to_contain_text("No running job has to end.")
    operator.locator("#begin").click()
    rollout = operator.locator("#rollout")
    expect(rollout).to_have_attribute("data-state", "done")
    expect(operator.locator(f"tr[data-node='{node}']")).to_have_attribute("data-step", "verified")
    where = operator.url
    operator.locator("#changes").get_by_role("link", name=node).click()
    expect(operator.locator("#node-slices")).to_contain_text("3g.40gb")

    operator.goto(where)
    operator.locator("#revert").click()
    expect(rollout).to_have_attribute("data-state", "reverted")
    operator.locator("#changes").get_by_role("link", name=node).click()
    expect(operator.locator("#node-says")).to_contain_text("8 of 8 GPUs are free")
