"""Quota by request, as a lead and an operator see it: two browsers on the whole product."""

import pytest
from playwright.sync_api import expect

from portal.embedded import demo, first_steps
from tests.thread.stack import running_stack

pytestmark = [pytest.mark.thread, pytest.mark.browser]

SPEED = 60
MODEL = "A100-80GB"  # of which the demo leaves eight to ask for; vision has four
WHY = "Video models: two runs of ten days on 8 GPUs each, as measured last spring."


@pytest.fixture(scope="module")
def stack():
    with pytest.MonkeyPatch.context() as patch:  # services of our own, whatever the machine has
        patch.delenv("DATABASE_URL", raising=False)
        patch.delenv("REDIS_URL", raising=False)
        with running_stack(speed=SPEED) as stack:
            yield stack


@pytest.fixture
def person(stack, browser):
    """A function that gives somebody's browser, which must not complain."""
    complaints, contexts = [], []

    def signed_in(name):
        arguments = ("manage.py", "sign_in_link", "--user", name)
        program = demo.python(stack.options, stack.env, "sign-in-link", *arguments)
        printed = first_steps.run_to_end(program).split()
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda line: complaints.append(line.text) if line.type == "error" else None
        )
        page.goto(next(word for word in printed if word.startswith(stack.options.address)))
        return page

    yield signed_in
    for context in contexts:
        context.close()
    assert complaints == []


def ask(lead, *, gpus):
    """Write and submit a request; where its page is."""
    lead.get_by_role("link", name="Requests").click()
    lead.locator("#new-request").click()
    lead.get_by_label("GPU model").select_option(label=MODEL)
    lead.locator("#id_gpus").fill(str(gpus))
    lead.get_by_label("What it is for").fill(WHY)
    lead.locator("#submit-request").click()
    expect(lead.locator("#request-head")).to_have_attribute("data-state", "submitted")
    return lead.url


def quota_of(stack, tenant):
    return stack.rows(
        "SELECT q.nominal, q.granted FROM tenants_quota q JOIN tenants_tenant t"
        " ON t.id = q.tenant_id JOIN topology_resourceflavor f ON f.id = q.flavor_id"
        " WHERE t.slug = %s AND f.name = %s",
        tenant,
        MODEL,
    )


def test_a_lead_asks_an_operator_approves_and_the_quota_is_there(stack, person):
    lead = person("elena-rossi")
    where = ask(lead, gpus=8)
    asked_before = stack.value("SELECT cycle_asked FROM topology_cluster")
    operator = person("demo-operator")

    operator.get_by_role("link", name="Approvals").click()
    number = where.rstrip("/").rpartition("/")[2]
    operator.locator("#waiting").get_by_role("link", name=f"Q-{number}").click()
    expect(operator.locator("#decide")).to_contain_text("it fits")
    operator.locator("#approve").click()

    expect(operator.locator("#request-head")).to_have_attribute("data-state", "active")
    assert quota_of(stack, "vision") == [(12, 8)]
    assert stack.value("SELECT cycle_asked FROM topology_cluster") > asked_before
    lead.goto(where)
    expect(lead.locator("#request-head")).to_have_attribute("data-state", "active")
    steps = lead.locator("#events li").evaluate_all("all => all.map(li => li.dataset.action)")
    assert steps == ["start", "approve", "submit", "create"]
    lead.goto(f"{stack.options.address}/tenants/vision/")
    cells = lead.locator('#quota tr[data-flavor="A100-80GB"] td').all_inner_texts()
    assert cells[:5] == ["12", "0", "0", "0", "12"]


def test_what_does_not_fit_is_answered_with_an_offer(stack, person):
    lead = person("samuel-okafor")
    where = ask(lead, gpus=16)
    operator = person("demo-operator")

    operator.goto(where)
    expect(operator.locator("#decide")).to_contain_text("it does not fit")
    operator.get_by_label("Guaranteed GPUs").and_(operator.locator("input")).fill("2")
    operator.get_by_label("Words to the tenant").fill("Two to begin with.")
    operator.locator("#counter").click()
    expect(operator.locator("#request-head")).to_have_attribute("data-state", "countered")

    lead.goto(where)
    expect(lead.locator("#events")).to_contain_text("Two to begin with.")


def test_gpus_are_handed_back_with_the_keyboard_alone(stack, person):
    lead = person("elena-rossi")
    lead.goto(f"{stack.options.address}/tenants/vision/")
    lead.locator("#tenant-requests a").first.focus()
    lead.keyboard.press("Enter")
    lead.locator("#back-gpus").focus()
    lead.keyboard.press("Control+a")
    lead.keyboard.type("3")
    lead.keyboard.press("Tab")
    lead.keyboard.press("Enter")

    expect(lead.get_by_text("Thank you: 3 GPUs are back for everybody.")).to_be_visible()
    assert quota_of(stack, "vision") == [(9, 5)]
