"""A sign of life from processes that serve no port: a file that each keeps touching.

Whoever runs them (deploy/ has probes for it) takes one whose file is minutes old for stuck. It is
touched by the loop that does the work, so a process that is only there does not count.
"""

from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.beat import PersistentScheduler
from django.conf import settings

EVERY_SECONDS = 10.0


def show_life() -> None:
    """Touch the file that the settings name, if they name one."""
    if settings.ALIVE_FILE:
        Path(settings.ALIVE_FILE).touch()


class WorkerLife(bootsteps.StartStopStep):  # type: ignore[misc]  # celery ships no types
    """Of a worker: its main loop, which hands out the tasks."""

    requires = {"celery.worker.components:Timer"}

    def start(self, parent: Any) -> None:
        show_life()
        parent.timer.call_repeatedly(EVERY_SECONDS, show_life)


class LivingScheduler(PersistentScheduler):  # type: ignore[misc]  # celery ships no types
    """Of beat: each look at what is due."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        show_life()
        return float(super().tick(*args, **kwargs))
