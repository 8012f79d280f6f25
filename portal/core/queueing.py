import logging
from functools import partial

from celery import current_app
from django.db import transaction

logger = logging.getLogger(__name__)


def send_on_commit(task_name: str, **kwargs: int | str) -> None:
    """Queue a task by name once the surrounding transaction is in the database, or never."""
    transaction.on_commit(partial(_send, task_name, kwargs), robust=True)


def _send(task_name: str, kwargs: dict[str, int | str]) -> None:
    """A broker that is down delays the work; the beat finds it."""
    try:
        current_app.send_task(task_name, kwargs=kwargs, retry=False)
    except current_app.connection_for_write().recoverable_connection_errors as error:
        logger.warning("%s was not queued, the beat will find it: %s", task_name, error)
