"""Chromium as Debian ships it, on a live server in this process."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install --no-install-recommends chromium")
    return {
        **browser_type_launch_args,
        "executable_path": CHROMIUM,
        "args": [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ],
    }


@pytest.fixture(scope="session")
def base_url():
    """None: pages are named in full. Replaces the plugin's own, which pytest warns of."""
