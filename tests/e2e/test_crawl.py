"""Every page in both themes and languages, wide and narrow: nothing in the console, nothing that
the content security policy refused, nothing wider than the screen, nothing that axe finds.
"""

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from scheduling.services.telling import tell_of_jobs
from tenants.services.invitations import path_of
from tests.factories import InvitationFactory
from tests.scene import (
    LOG,
    add_announcements,
    add_clusters,
    add_plans,
    add_requests,
    add_rollout,
    make_scene,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = (Path(settings.BASE_DIR) / "tests" / "data" / "vendor" / "axe.min.js").read_text()
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FIND = """tags => axe.run({runOnly: tags, resultTypes: ["violations"]})
    .then(found => found.violations.map(
    wrong => wrong.id + ": " + wrong.nodes.map(node => node.html.slice(0, 200)).join(" | ")))"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
VIEWS = [
    ("light", "en", 1280),
    ("light", "zh-hans", 390),
    ("dark", "en", 390),
    ("dark", "zh-hans", 1280),
    ("light", "en", 320),
]
LOOKED_INTO = ["llama-70b-pretrain", "moe-128-experts", "tokenizer-sweep", "rlhf-reward-model"]
LOOKED_AT = ["submitted", "in_review", "active"]  # requests that operators do something with
CALCULATED = (
    "memory-task=training&memory-model=llama-3.1-8b&memory-precision=bf16&memory-gpus=8"
    "&memory-tensor=1&memory-pipeline=1&memory-batch=1&memory-sequence=4096"
    "&memory-optimiser=adam&memory-zero=3&memory-checkpointing=full"
)
MISSING = "the server responded with a status of 404"  # of the page that is asked for in vain


def pages_of(scene):
    """(who, address): each page at least once, and by each role that it differs for."""
    running = scene.jobs["llama-70b-pretrain"].public_id
    return [
        (None, "/sign-in/"),
        ("omar", "/"),
        ("mei", "/"),
        ("root", "/"),
        ("newcomer", "/"),
        ("omar", "/jobs/"),
        ("newcomer", "/jobs/"),
        ("omar", "/jobs/new/"),
        ("omar", "/jobs/new/?template=pytorch-ddp"),
        ("omar", f"/jobs/new/?{CALCULATED}"),
        *(("mei", f"/jobs/{scene.jobs[name].public_id}/") for name in LOOKED_INTO),
        ("omar", f"/jobs/{running}/cancel/"),
        ("omar", f"/jobs/{running}/extend/"),
        ("omar", f"/jobs/{running}/logs/?times=1"),
        ("omar", f"/jobs/{running}/logs/?q=loss"),
        ("omar", f"/jobs/{scene.jobs['fresh-submission'].public_id}/logs/"),
        ("vera", f"/jobs/{scene.jobs['yolo-detector'].public_id}/events/"),
        ("omar", f"/jobs/{running}/spec/"),
        ("omar", "/queue/"),
        ("omar", "/cluster/"),
        ("omar", "/cluster/nodes/h100-01/"),
        ("omar", "/cluster/nodes/a100-03/"),
        ("root", "/quota/"),
        ("newcomer", "/quota/"),
        ("mei", "/tenants/nlp/"),
        ("mei", "/tenants/nlp/memberships/"),
        ("omar", "/tenants/nlp/memberships/"),
        ("mei", "/tenants/nlp/memberships/omar/caps/"),
        ("mei", "/tenants/nlp/invitations/"),
        ("newcomer", scene.invitation),
        (None, scene.invitation),
        ("mei", "/tenants/nlp/memberships/omar/remove/"),
        ("omar", "/profile/tokens/"),
        ("omar", "/inbox/"),
        ("omar", "/profile/webhooks/"),
        ("mei", "/tenants/nlp/webhooks/"),
        ("newcomer", "/inbox/"),
        ("omar", "/search/?q=l"),
        ("omar", "/search/?q=nothing+of+the+kind"),
        ("root", "/profile/notifications/"),
        ("mei", "/cluster/calendar/"),
        ("root", "/cluster/calendar/"),
        ("root", "/admin/approvals/"),
        ("root", "/tenants/nlp/"),
        ("root", "/tenants/nlp/budget/"),
        ("root", "/admin/cohorts/"),
        ("root", "/admin/cohorts/new/"),
        ("root", "/admin/cohorts/of/research/"),
        ("root", "/admin/cohorts/of/research/limits/"),
        ("root", "/tenants/nlp/cohort/"),
        ("root", "/tenants/nlp/limits/"),
        ("root", "/admin/policies/"),
        ("root", "/admin/clusters/"),
        ("root", "/admin/clusters/connect/"),
        ("root", "/admin/clusters/of/demo/"),
        ("root", "/admin/clusters/of/lab/"),
        ("root", "/admin/clusters/of/demo/namespaces/team-a/"),
        ("root", "/admin/clusters/of/demo/renew/"),
        ("root", "/admin/clusters/of/demo/helm/"),
        ("root", "/admin/priorities/"),
        ("root", "/admin/audit/"),
        ("root", "/admin/system/"),
        ("root", "/admin/users/"),
        ("root", "/admin/users/?q=nobody+of+that+name"),
        ("root", "/admin/users/new/"),
        ("root", "/admin/users/of/mei/"),
        ("omar", "/profile/password/"),
        ("root", "/admin/announcements/"),
        ("root", "/admin/announcements/new/"),
        ("root", f"/admin/announcements/{scene.announcement.pk}/"),
        ("root", "/admin/priorities/of/high/"),
        ("omar", "/cluster/maintenance/"),
        ("root", "/cluster/maintenance/"),
        ("root", "/cluster/maintenance/windows/new/"),
        ("root", "/cluster/maintenance/blocks/new/"),
        ("root", f"/cluster/maintenance/windows/{scene.window.pk}/"),
        ("root", f"/cluster/maintenance/blocks/{scene.block.pk}/"),
        ("root", "/cluster/layouts/"),
        ("root", "/cluster/layouts/new/?kind=A100-80GB:8"),
        ("root", "/cluster/layouts/of/halves/"),
        ("root", "/cluster/layouts/of/halves/rollout/"),
        ("root", f"/cluster/rollouts/{scene.rollout.pk}/"),
        ("mei", "/quota/requests/"),
        ("mei", "/quota/requests/new/"),
        ("newcomer", "/quota/requests/new/"),
        ("mei", f"/quota/requests/new/?replaces={scene.requests['active'].pk}&renew=1"),
        *(("mei", f"/quota/requests/{asked.pk}/") for asked in scene.requests.values()),
        *(("root", f"/quota/requests/{scene.requests[s].pk}/") for s in LOOKED_AT),
        ("omar", "/nothing/"),
    ]


class Writing:
    """A cluster in which every pod has written the same."""

    def log(self, asked):
        return LOG


@pytest.fixture
def scene(live_server, monkeypatch):
    monkeypatch.setattr("scheduling.web.logs.gateway_to", lambda _cluster: Writing())
    scene = make_scene()
    scene.requests = add_requests(scene)
    scene.window, scene.block = add_plans(scene)
    scene.rollout = add_rollout(scene)
    add_clusters(scene)
    scene.announcement = add_announcements(scene)
    invited = InvitationFactory(tenant=scene.language, invited_by=scene.mei)
    scene.invitation = path_of(invited)
    tell_of_jobs(at=scene.wall)
    return scene


@pytest.fixture
def open_page(browser, live_server, scene):
    """A function that opens a page as somebody, in a theme, a language and a width."""
    contexts = []

    def opened(who, *, theme="light", language="en", width=1280):
        cookies = {"theme": theme, "django_language": language}
        if who is not None:
            client = Client()  # one each: signing in again ends what the client was signed in to
            client.force_login(getattr(scene, who))
            cookies["sessionid"] = client.cookies["sessionid"].value
        context = browser.new_context(viewport={"width": width, "height": 900})
        context.add_cookies(
            [{"name": n, "value": v, "url": live_server.url} for n, v in cookies.items()]
        )
        contexts.append(context)
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("theme", "language", "width"), VIEWS)
def test_every_page_is_clean(open_page, live_server, scene, theme, language, width):
    wrong = []
    tabs = {}

    def hears_console(message):
        wrong.append(message.text)

    def hears_error(error):
        wrong.append(str(error))

    for who, address in pages_of(scene):
        if who not in tabs:
            tabs[who] = open_page(who, theme=theme, language=language, width=width)
            tabs[who].on("console", hears_console)
            tabs[who].on("pageerror", hears_error)
        page = tabs[who]
        page.goto(live_server.url + address)
        found = page.evaluate(f"{AXE};({FIND})", WCAG)
        wide = page.evaluate(TOO_WIDE)
        wrong += [f"{who} {address}: {line}" for line in found]
        wrong += [f"{who} {address}: {wide} px too wide"] if wide > 0 else []

    assert [line for line in wrong if MISSING not in line] == []


def test_a_page_follows_the_system_until_a_theme_is_chosen(open_page, live_server):
    page = open_page("omar", theme="auto")
    theme = page.locator("html")

    page.emulate_media(color_scheme="dark")
    page.goto(live_server.url + "/")
    followed = theme.get_attribute("data-bs-theme")
    page.locator("#theme-menu summary").click()
    page.get_by_role("button", name="Light").click()
    page.wait_for_load_state()
    chosen = theme.get_attribute("data-bs-theme")

    assert (followed, chosen) == ("dark", "light")


def test_a_language_is_switched_on_any_page(open_page, live_server):
    page = open_page("omar")

    page.goto(live_server.url + "/queue/")
    page.locator("#language-menu summary").click()
    page.get_by_role("button", name="简体中文").click()
    page.wait_for_load_state()

    assert page.url == live_server.url + "/queue/"
    assert page.locator("h1").text_content() == "队列"


def test_a_job_page_shows_a_change_by_itself(open_page, live_server, scene):
    job = scene.jobs["fresh-submission"]
    page = open_page("omar")

    page.goto(f"{live_server.url}/jobs/{job.public_id}/")
    page.locator("#job[data-state=queued]").wait_for()
    type(job).objects.filter(pk=job.pk).update(state="cancelled", version=9)

    page.locator("#job[data-state=cancelled]").wait_for(timeout=20_000)
    assert page.locator("#job").get_attribute("hx-get") is None


def test_a_job_is_submitted_without_script(browser, client, live_server, scene):
    client.force_login(scene.omar)
    context = browser.new_context(java_script_enabled=False)
    session = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()

    page.goto(live_server.url + "/jobs/new/")
    page.get_by_label("Name").fill("without script")
    page.get_by_role("button", name="Submit job").click()

    assert page.locator("h1").text_content() == "without script"
    assert page.locator("#job-head .state").get_attribute("data-state") == "queued"
    context.close()


def test_the_keyboard_alone_cancels_a_job(open_page, live_server, scene):
    job = scene.jobs["moe-128-experts"]
    page = open_page("omar")

    page.goto(f"{live_server.url}/jobs/{job.public_id}/")
    page.locator("#cancel").focus()
    page.keyboard.press("Enter")
    page.locator("#confirm-cancel").wait_for()
    page.locator("#confirm-cancel").focus()
    page.keyboard.press("Enter")

    page.locator("#job[data-state=cancelled]").wait_for()


def test_arrows_move_through_the_map_and_enter_opens_a_job(open_page, live_server, scene):
    page = open_page("omar")

    page.goto(live_server.url + "/cluster/")
    page.locator("[data-roving] a").first.focus()
    for _step in range(200):
        if page.evaluate("document.activeElement.dataset.kind") == "mine":
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    page.locator("#job-head").wait_for()
    assert page.url.endswith(scene.jobs["llama-70b-pretrain"].public_id + "/")
