"""What every test may ask for. Pure tests ask for nothing and start nothing."""

import os
import shutil
import tempfile
from pathlib import Path

import environ
import pytest
from celery import current_app
from django.conf import settings
from django.db import connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from portal.embedded import postgres, valkey

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # playwright runs a loop in this thread

# A machine with much else to do is slow, and no law is broken by that. What is drawn is the same
# every day, so that a change is judged by what it changes; `bin/test --long` draws anew.
_PATIENT = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile("explore", _PATIENT)
hypothesis_settings.register_profile("every-day", _PATIENT, derandomize=True)
hypothesis_settings.load_profile("every-day")


@pytest.fixture(scope="session")
def throwaway():
    """A short-named folder for this run's servers."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user than root, and must reach its own
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def database_url(throwaway):
    """A real PostgreSQL that ends with this process."""
    return postgres.ensure_test_server(throwaway / "pg")


@pytest.fixture(scope="session")
def redis_url(throwaway):
    """A real Valkey that ends with this process."""
    return valkey.ensure_test_server(throwaway / "valkey")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(database_url):
    """Point Django at the throwaway server before its test database is made."""
    server = environ.Env.db_url_config(database_url)
    settings.DATABASES["default"].update(server)
    connections["default"].settings_dict.update(server)
    # The database to connect to while the test database is made and dropped.
    connections["default"].settings_dict["NAME"] = server["NAME"]


@pytest.fixture
def broker_at(monkeypatch):
    """Says where the broker is; for as long as the test is."""

    def move(url):
        monkeypatch.setitem(current_app.conf, "broker_write_url", url)
        _forget_broker()

    yield move
    _forget_broker()


def _forget_broker():
    """Connections are pooled by where the broker was when the first one was made."""
    current_app._after_fork()  # noqa: SLF001 - Celery has no public way to it


@pytest.fixture
def sent(monkeypatch):
    """Tasks that would have gone to the broker, as (name, arguments): its one door, replaced."""
    tasks = []
    monkeypatch.setattr(
        "portal.core.queueing._send", lambda name, kwargs: tasks.append((name, kwargs))
    )
    return tasks


@pytest.fixture(autouse=True)
def _no_broker(request):
    """No test reaches for a broker by accident: what is sent on commit is kept in `sent`."""
    if "broker" not in request.fixturenames:
        request.getfixturevalue("sent")
