"""R5. A researcher makes a token, and a program submits with it what the browser then shows."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]

JOB = {
    "tenant": "robotics",
    "name": "from a program",
    "members": 1,
    "gpus_per_member": 1,
    "command": ["sleep", "600"],
}


def test_r5_a_token_submits_once_however_often_and_opens_nothing_when_revoked(stack, person):
    page = person("arjun-rao")
    page.locator("#user-menu summary").click()
    page.get_by_role("link", name="API tokens").click()
    page.locator("#id_name").fill("nightly")
    page.locator("#make-token").click()
    snippet = page.locator("#snippet").inner_text()
    secret = page.locator("#secret").inner_text()
    assert f"Bearer {secret}" in snippet
    address = re.search(r"(http\S+)/me", snippet)[1]

    with httpx.Client(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as program:
        once = {"Idempotency-Key": "night-1"}
        answers = [program.post(f"{address}/jobs", json=JOB, headers=once) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json()["id"] == answers[1].json()["id"]
        open_ones = {"state": ["queued", "starting", "running"]}
        listed = program.get(f"{address}/jobs", params=open_ones).json()
        assert program.get(f"{address}/tokens").status_code == 403  # it has no scope for that

        page.goto(f"{stack.options.address}/jobs/{answers[0].json()['id']}/")
        wait_for_job(page, "running")
        page.locator("#user-menu summary").click()
        page.get_by_role("link", name="API tokens").click()
        expect(page.locator("#tokens")).not_to_contain_text("never")
        page.get_by_role("button", name="Revoke nightly").click()
        expect(page.locator("#tokens")).not_to_contain_text("nightly")
        assert program.get(f"{address}/jobs").status_code == 401
    assert [job["name"] for job in listed["items"]] == [JOB["name"]]
