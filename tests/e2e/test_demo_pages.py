"""The pages that only the demo has, as the crawl looks at the others."""

from pathlib import Path

import pytest
from django.utils import timezone

from portal.site.seed import seed
from tests.e2e.test_crawl import AXE, FIND, TOO_WIDE, VIEWS, WCAG

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def demo(live_server, settings, tmp_path):
    """Its address."""
    settings.IS_DEMO = True
    settings.DATA_DIR = tmp_path
    (tmp_path / "postgres").mkdir()
    seed(Path("kubeconfig"), at=timezone.now())
    return live_server.url


@pytest.mark.parametrize(("theme", "language", "width"), VIEWS)
def test_each_of_them_is_clean_from_the_door_on(browser, demo, theme, language, width):
    wrong = []
    context = browser.new_context(viewport={"width": width, "height": 900})
    cookies = {"theme": theme, "django_language": language}
    context.add_cookies([{"name": n, "value": v, "url": demo} for n, v in cookies.items()])
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def look():
        wrong.extend(page.evaluate(f"{AXE};({FIND})", WCAG))
        wide = page.evaluate(TOO_WIDE)
        wrong.extend([f"{page.url}: {wide} px too wide"] if wide > 0 else [])

    page.goto(f"{demo}/sign-in/")
    look()
    page.locator("#personas button[value=operator]").click()
    page.locator("#home").wait_for()
    look()
    page.goto(f"{demo}/demo/")
    look()
    page.locator("#anew").click()
    page.locator("#anew-form").wait_for()
    look()
    page.get_by_role("checkbox").check()
    page.locator("#anew-sure").click()
    page.locator("#anew-form").wait_for(state="detached")
    look()

    assert wrong == []
    context.close()
