"""What a page costs a real browser: Chromium as Debian ships it, on a server in this process."""

import shutil
import statistics
from contextlib import contextmanager

from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test.testcases import LiveServerThread
from playwright.sync_api import sync_playwright

from tests.bench.figures import NotRun

HOST = "127.0.0.1"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


def drawing_seconds(client, path, rounds):
    """CPU of the browser's process for one tab, from address to painted page: the median of rounds.

    A first round, not counted, fetches styles and scripts. client: whose session it has.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise NotRun("there is no chromium: apt-get install --no-install-recommends chromium")
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    with _served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": url}])
        page = context.new_page()
        probe = context.new_cdp_session(page)
        probe.send("Performance.enable")
        times = [_spent(page, probe, url + path) for _ in range(1 + rounds)]
        browser.close()
    return statistics.median(times[1:])


def _spent(page, probe, address):
    began = _process_seconds(probe)
    answer = page.goto(address)
    page.evaluate(PAINTED)
    if answer.status != 200:
        raise NotRun(f"{address} answered {answer.status}")
    return _process_seconds(probe) - began


def _process_seconds(probe):
    metrics = probe.send("Performance.getMetrics")["metrics"]
    return next(own["value"] for own in metrics if own["name"] == "ProcessTime")


@contextmanager
def _served():
    """The address of the portal, which answers from a thread of this process."""
    server = LiveServerThread(HOST, StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait()
    if server.error:
        raise server.error
    try:
        yield f"http://{HOST}:{server.port}"
    finally:
        server.terminate()
