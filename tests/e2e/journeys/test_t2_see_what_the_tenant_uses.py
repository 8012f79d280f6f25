"""T2. A lead sees what the tenant uses, who does, and how its budget of GPU-hours goes."""

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import OPERATOR, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_t2_the_tenants_page_says_who_uses_what_and_how_long_the_budget_lasts(stack, person):
    now = stack.value("SELECT clock_at FROM topology_cluster")
    operator = person(OPERATOR)
    operator.locator("nav.rail").get_by_role("link", name="Tenants").click()
    operator.locator("main").get_by_role("link", name="Speech").first.click()
    operator.locator("#set-budget").click()
    operator.locator("#id_gpu_hours").fill("1000")
    for field, days in (("from_at", -2), ("until_at", 30)):
        day = now + timedelta(days=days)
        operator.locator(f"#id_{field}").fill(f"{day:%Y-%m-%dT%H:%M}")
    operator.locator("#save").click()
    expect(operator.locator(".budget-says")).to_contain_text("1000 GPU-hours")
    worker = person("nina-petrov")
    worker.locator("nav.rail").get_by_role("link", name="New job").click()
    worker.locator("#id_max_hours").fill("20")
    worker.locator("#id_name").fill("four of speech")
    worker.locator("#id_tenant").select_option("speech")
    worker.locator("#id_gpus_per_member").fill("4")
    worker.locator("#id_flavor").select_option(label="L40S")
    worker.locator("#id_run_seconds").fill("60000")
    worker.locator("#submit-job").click()
    wait_for_job(worker, "running")

    lead = person("samuel-okafor")
    lead.locator("nav.rail").get_by_role("link", name="Tenants").click()
    lead.locator("main").get_by_role("link", name="Speech").first.click()
    expect(lead.locator("#tenant-says")).to_contain_text("Jobs on GPUs: 1")
    used = lead.locator('#quota tr[data-flavor="L40S"] td').nth(1)
    expect(used).to_have_text("4")
    nina = lead.locator("#people tr", has_text="Nina Petrov")
    expect(nina.locator("td").nth(1)).to_have_text("4")
    expect(lead.locator(".budget-says")).to_contain_text("of 1000 GPU-hours used")
    lead.locator("#tenant-jobs").get_by_role("link", name="four of speech").click()
    wait_for_job(lead, "running")
