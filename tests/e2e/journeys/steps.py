"""What several journeys do: a job submitted, quota asked for and decided."""

import re

from playwright.sync_api import expect

WHY = "Video models: two runs of ten days on 8 GPUs each, as measured last spring."
OPERATOR = "demo-operator"


def fill_job(page, name, *, tenant, members=1, gpus=1, flavor=None, seconds=None, command=None):
    """Come to the form of a new job by the pages' own links, and fill it in."""
    page.locator("nav.rail").get_by_role("link", name="New job").click()
    page.locator("#id_name").fill(name)
    page.locator("#id_tenant").select_option(tenant)
    page.locator("#id_members").fill(str(members))
    page.locator("#id_gpus_per_member").fill(str(gpus))
    if flavor:
        page.locator("#id_flavor").select_option(label=flavor)
    page.locator("#id_run_seconds").fill("" if seconds is None else str(seconds))
    if command:
        page.locator("#id_command").fill(command)


def submit_job(page, name, **asked):
    """Submit a job by its form; where its page is, which `page` shows then."""
    fill_job(page, name, **asked)
    page.locator("#submit-job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    return page.url


def wait_for_job(page, state):
    expect(page.locator("#job")).to_have_attribute("data-state", state)


def begin_request(lead, *, gpus, model):
    """Fill in a request for quota of that model."""
    lead.locator("nav.rail").get_by_role("link", name="Requests").click()
    lead.locator("#new-request").click()
    lead.locator("#id_flavor").select_option(label=model)
    lead.locator("#id_gpus").fill(str(gpus))
    lead.locator("#id_justification").fill(WHY)


def ask_for_quota(lead, *, gpus, model):
    """Submit a request; where its page is."""
    begin_request(lead, gpus=gpus, model=model)
    lead.locator("#submit-request").click()
    wait_for_request(lead, "submitted")
    return lead.url


def wait_for_request(page, state):
    expect(page.locator("#request-head")).to_have_attribute("data-state", state)


def open_approval(operator, where):
    """From any page to the request at that address, as an operator comes to it."""
    operator.locator("nav.rail").get_by_role("link", name="Approvals").click()
    number = where.rstrip("/").rpartition("/")[2]
    operator.locator("#waiting").get_by_role("link", name=re.compile(f"^Q-{number}$")).click()


def actions_of(page):
    """The steps of a request so far, newest first."""
    return page.locator("#events li").evaluate_all("all => all.map(li => li.dataset.action)")


def quota_of(stack, tenant, flavor):
    """(guaranteed, of it by grants) of a tenant, as the scheduler reads it."""
    rows = stack.rows(
        "SELECT q.nominal, q.granted FROM tenants_quota q JOIN tenants_tenant t"
        " ON t.id = q.tenant_id JOIN topology_resourceflavor f ON f.id = q.flavor_id"
        " WHERE t.slug = %s AND f.name = %s",
        tenant,
        flavor,
    )
    return rows[0] if rows else (0, 0)
