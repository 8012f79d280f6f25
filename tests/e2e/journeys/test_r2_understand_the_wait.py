"""R2. A researcher reads why a job waits, who is in front, and does what would help."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import submit_job, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_r2_a_job_says_why_it_waits_and_starts_by_the_help_that_is_offered(person):
    holder = person("nina-petrov")
    submit_job(
        holder, "all of them", tenant="speech", members=2, gpus=8, flavor="L40S", seconds=80_000
    )
    wait_for_job(holder, "running")
    page = person("arjun-rao")

    submit_job(page, "has to wait", tenant="robotics", gpus=4, flavor="L40S", seconds=600)
    expect(page.locator("#because")).to_contain_text(re.compile(r"GPU"))
    expect(page.locator("#because")).to_contain_text("number 1 of 1 in the queue")
    expect(page.locator("#in-front")).to_contain_text("Nobody for the same GPUs.")
    expect(page.locator("#likely-start")).not_to_be_empty()
    other = page.locator("#helps li[data-kind=flavor][data-effect=starts_now]").first
    expect(other).to_be_visible()
    other.get_by_role("link", name="Change the job").click()
    expect(page.locator("#change ins")).to_contain_text("L40S")
    page.locator("#confirm-change").click()

    wait_for_job(page, "running")


def test_r2_a_job_nobody_can_hold_says_so_in_a_sentence(person):
    page = person("carla-mendes")

    submit_job(page, "beyond the ceiling", tenant="robotics", members=12, gpus=8, seconds=60)

    never = re.compile(r"It asks for 96 GPUs; its tenant may never hold more than \d+\.")
    expect(page.locator("#because")).to_have_text(never)
    wait_for_job(page, "queued")
