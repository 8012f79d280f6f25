"""R4. A job fails; the page says why in plain words, and it is sent again mended."""

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import submit_job, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_r4_a_failed_job_is_explained_mended_and_submitted_again(person):
    page = person("arjun-rao")
    failed = submit_job(page, "typo", tenant="robotics", command="sh -c 'sleep 30; exit 127'")

    wait_for_job(page, "failed")
    expect(page.locator("#because")).to_contain_text("not found in the image")
    expect(page.locator("#failure")).to_contain_text("exit code 127")
    expect(page.locator("#failure")).to_contain_text("Check the command")
    page.locator("#failure").get_by_role("link", name="Its log").click()
    expect(page.locator("pre.log, .log").first).to_contain_text("exit code 127")
    page.goto(failed)
    page.locator("#failure").get_by_role("link", name="Submit again with changes").click()
    expect(page.locator("#pattern")).to_contain_text("A copy of typo")
    expect(page.locator("#id_command")).to_have_value("sh -c 'sleep 30; exit 127'")
    page.locator("#id_name").fill("mended")
    page.locator("#id_command").fill("sh -c 'sleep 30'")
    page.locator("#submit-job").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("mended")
    wait_for_job(page, "succeeded")
