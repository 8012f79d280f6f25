"""T5. A lead sees who holds the tenant's GPUs, and a job of its own takes them back."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import submit_job, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_t5_who_holds_lent_gpus_is_seen_and_they_come_back_to_a_job_that_needs_them(person):
    borrower = person("tomasz-nowak")
    for number in range(1, 4):  # 24 of 32, few of them vision's own
        submit_job(
            borrower,
            f"borrows-{number}",
            tenant="vision",
            gpus=8,
            flavor="A100-80GB",
            seconds=80_000,
        )
        wait_for_job(borrower, "running")
    lead = person("mei-lin")
    lead.locator("nav.rail").get_by_role("link", name="Tenants").click()
    lead.locator("main").get_by_role("link", name="Language").first.click()
    loan = lead.locator("#loans li[data-flavor='A100-80GB']")
    expect(loan).to_contain_text("to Vision")
    expect(loan).to_contain_text("has them back within about")

    submit_job(
        lead, "own again", tenant="nlp", members=2, gpus=8, flavor="A100-80GB", seconds=80_000
    )
    wait_for_job(lead, "running")

    borrower.locator("nav.rail").get_by_role("link", name="All jobs").click()
    stopped = borrower.locator("tr[data-state=queued]").get_by_role("link", name="borrows-")
    stopped.first.click()
    expect(borrower.locator("#job-head")).to_contain_text("Stopped at")
