"""R1. A researcher submits the first job: from a template, tried before, watched to its end."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.journeys.steps import fill_job, submit_job, wait_for_job

pytestmark = [pytest.mark.thread, pytest.mark.browser]


def test_r1_a_gang_from_a_template_is_tried_submitted_and_seen_to_its_end(person):
    page = person("carla-mendes")

    page.locator("nav.rail").get_by_role("link", name="New job").click()
    page.get_by_role("link", name="PyTorch DDP").click()
    page.locator("#id_name").fill("two of eight")
    page.locator("#id_tenant").select_option("robotics")
    page.locator("#id_run_seconds").fill("900")
    page.locator("#try-job").click()
    expect(page.locator("#trial")).to_have_attribute("data-starts", "yes")
    page.locator("#submit-job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("two of eight")
    page.evaluate("window.sameDocument = true")

    wait_for_job(page, "running")
    nodes = page.locator("#job").get_by_role("link", name=re.compile("^(h100|a100|l40s)"))
    assert len(set(nodes.all_inner_texts())) == 2
    wait_for_job(page, "succeeded")

    steps = page.locator("#events li").evaluate_all("items => items.map(i => i.dataset.state)")
    assert sorted(steps) == ["queued", "running", "starting", "succeeded"]
    expect(page.locator("#ran")).to_have_text(re.compile("15 min"))
    assert page.evaluate("window.sameDocument") is True


def test_r1_the_form_and_its_yaml_say_the_same(person):
    page = person("arjun-rao")

    fill_job(page, "as text", tenant="robotics", members=1, gpus=1, seconds=600)
    page.locator("button[value=yaml]").click()
    text = page.locator("#yaml").input_value()
    page.locator("#yaml").fill(text.replace("gpus_per_member: 1", "gpus_per_member: 2"))
    page.locator("button[value=form]").click()
    expect(page.locator("#id_gpus_per_member")).to_have_value("2")
    page.locator("#submit-job").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("as text")
    wait_for_job(page, "running")


def test_r1_a_running_job_is_cancelled_and_its_gpus_come_back(person, stack):
    page = person("arjun-rao")
    submit_job(page, "regretted", tenant="robotics", gpus=2, seconds=80_000)
    wait_for_job(page, "running")

    page.locator("#cancel").click()
    page.locator("#confirm-cancel").click()

    wait_for_job(page, "cancelled")
    held = "SELECT count(*) FROM scheduling_placement WHERE released_at IS NULL"
    stack.wait_until(lambda: stack.value(held) == 0, within=60, what="the GPUs are given back")
