"""T4. A lead invites, lets somebody in, limits them, and puts them out with what they run."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import submit_job, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_t4_somebody_is_let_in_works_and_leaves_with_their_jobs(stack, person):
    lead, guest = person("elena-rossi"), person("aisha-bello")
    lead.goto(f"{stack.options.address}/tenants/vision/")
    lead.get_by_role("link", name="roles, limits, let in, remove").click()
    lead.locator("#id_username").fill("nobody-of-that-name")
    lead.locator("#add-member").click()
    expect(lead.locator("#form-errors")).to_be_visible()
    lead.locator("#id_username").fill("aisha-bello")
    lead.locator("#id_role").select_option(label="viewer")
    lead.locator("#add-member").click()
    row = lead.locator("#member-aisha-bello")
    expect(row).to_be_visible()

    guest.goto(f"{stack.options.address}/tenants/vision/")
    expect(guest.locator("#quota")).to_be_visible()
    guest.locator("nav.rail").get_by_role("link", name="New job").click()
    expect(guest.locator("#id_tenant option[value=vision]")).to_have_count(0)  # a viewer looks

    row.locator("select").select_option(label="researcher")
    row.get_by_role("button", name="Set").click()
    expect(lead.locator("main")).to_contain_text("Aisha Bello: researcher.")
    submit_job(guest, "of a guest", tenant="vision", gpus=1, flavor="L40S", seconds=80_000)
    wait_for_job(guest, "running")
    own = guest.url
    _limit_to_one_gpu(lead, row)
    submit_job(guest, "one more", tenant="vision", gpus=1, flavor="L40S", seconds=80_000)
    expect(guest.locator("main")).to_contain_text("It waits for its owner's own jobs")
    _invite(lead)
    lead.goto(f"{stack.options.address}/tenants/vision/memberships/")
    guest.goto(stack.options.address)  # a page of a job asks again, and would find it gone
    lead.reload()
    row.get_by_role("link", name="Remove").click()
    expect(lead.locator("#remove-say")).to_contain_text("1 jobs of Aisha Bello. Waiting: 1.")
    lead.locator("input[name=jobs][value=cancel_all]").check()
    lead.locator("#confirm-remove").click()
    expect(lead.locator("main")).to_contain_text("Aisha Bello is out.")

    lead.goto(own)
    wait_for_job(lead, "cancelled")
    guest.locator("nav.rail").get_by_role("link", name="Tenants").click()
    expect(guest.locator("main")).not_to_contain_text("Vision")


def _limit_to_one_gpu(lead, row):
    row.get_by_role("link", name="Limit").click()
    lead.locator("#id_gpus_at_once").fill("1")
    lead.locator("#set-caps").click()
    expect(row).to_contain_text("1 GPU")


def _invite(lead):
    """One address and one that is none: each is told what became of it."""
    lead.locator("#to-invitations").click()
    lead.locator("#id_emails").fill("ada@example.org, nobody")
    lead.locator("#invite").click()
    expect(lead.locator("#told [data-outcome=invited]")).to_have_count(1)
    expect(lead.locator("#told [data-outcome=no_address]")).to_have_count(1)
