"""A real control plane, for the tests that ask for one. Each of them bears the mark `kube`."""

import sys
from functools import partial

import pytest

from portal.embedded.programs import CannotStart
from tenants.models import Role
from tests.factories import MembershipFactory, QuotaFactory, TenantFactory
from tests.kube.controlplane import build
from tests.kube.controlplane.running import running_control_plane
from tests.kube.real_stage import a_real_stage, submit_gang
from tests.kube.webhooks import running_webhook_server
from topology.models import ResourceFlavor


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


@pytest.fixture
def stage(control_plane, sent):
    """The whole scheduler with a cluster of two nodes of 8 GPUs, in one thread."""
    with a_real_stage(control_plane, sent) as stage:
        yield stage


@pytest.fixture
def tenant(stage):
    tenant = TenantFactory()
    QuotaFactory(tenant=tenant, flavor=ResourceFlavor.objects.get(), nominal=16)
    return tenant


@pytest.fixture
def submit(stage, tenant):
    """Submits a gang of so many members of 8 GPUs each; see submit_gang."""
    person = MembershipFactory(tenant=tenant, role=Role.RESEARCHER).user
    return partial(submit_gang, stage, tenant, person)


@pytest.fixture
def little_patience(settings):
    """A gang is to be bound within a second."""
    settings.BIND_TIMEOUT_SECONDS = 1
