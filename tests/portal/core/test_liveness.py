import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from celery import current_app

from portal.core.liveness import EVERY_SECONDS, LivingScheduler, WorkerLife, show_life


@pytest.fixture
def alive(settings, tmp_path):
    settings.ALIVE_FILE = str(tmp_path / "alive")
    return tmp_path / "alive"


def age(file):
    """An hour, until it is touched again."""
    os.utime(file, (0, 0))
    return file.stat().st_mtime


def test_nothing_is_touched_where_nothing_is_named(settings):
    settings.ALIVE_FILE = ""

    show_life()


def test_a_worker_shows_life_at_once_and_by_its_own_timer(alive):
    calls = []
    timer = SimpleNamespace(call_repeatedly=lambda seconds, what: calls.append((seconds, what)))

    WorkerLife(None).start(SimpleNamespace(timer=timer))
    before = age(alive)
    [(seconds, again)] = calls
    again()

    assert seconds == EVERY_SECONDS
    assert alive.stat().st_mtime > before


def test_each_look_of_beat_at_what_is_due_shows_life(alive, tmp_path):
    beat = LivingScheduler(app=current_app, schedule_filename=str(tmp_path / "s"), lazy=True)
    beat.setup_schedule()
    beat.schedule = {}

    beat.tick()

    assert alive.exists()
    beat.close()


def test_the_programs_of_the_portal_take_part():
    """In a process of its own: tests have an app without any."""
    told = (
        "import django; django.setup()\n"
        "from portal.celery import app\n"
        "print([step.__name__ for step in app.steps['worker']], app.conf.beat_scheduler)"
    )
    said = subprocess.run(
        [sys.executable, "-c", told],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings.test"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == "['WorkerLife'] portal.core.liveness:LivingScheduler\n"
