"""A real control plane, for the tests that ask for one. Each of them bears the mark `kube`."""

import sys

import pytest

from portal.embedded.programs import CannotStart
from tests.kube.controlplane import build
from tests.kube.controlplane.running import running_control_plane
from tests.kube.webhooks import running_webhook_server


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What needs the control plane comes last: its programs may still be being built."""
    items.sort(key=lambda item: item.get_closest_marker("kube") is not None)


@pytest.fixture(scope="session")
def control_plane_programs(pytestconfig):
    """The programs, built now if nobody has done so; a test that needs them fails without."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(text):
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{text}\n")

    try:
        return build.ensure_built(say)
    except build.CannotBuild as error:
        reason = str(error)
    pytest.fail(f"The control plane cannot be built: {reason}", pytrace=False)


@pytest.fixture(scope="session")
def control_plane(control_plane_programs, throwaway):
    """A control plane without nodes, and room for whoever makes some of his own."""
    try:
        with running_control_plane(throwaway / "kube", control_plane_programs) as plane:
            yield plane
    except CannotStart as error:
        pytest.fail(f"The control plane did not start: {error}", pytrace=False)


@pytest.fixture(scope="session")
def webhook_server(throwaway):
    """Who answers our webhooks, and how an API server reaches him."""
    with running_webhook_server(throwaway / "webhooks") as server:
        yield server
