import logging
from functools import partial

from celery import current_app
from django.core.cache import cache
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

Argument = int | str | list[list[int]]

# Seconds that a message may wait for a worker; one that has not come by then may be lost.
AGAIN_AFTER = 15
# Once more at once: a pooled connection may be to a broker that has been restarted since.
_ONCE_MORE = {"max_retries": 1, "interval_start": 0}


def send_on_commit(task_name: str, **kwargs: Argument) -> None:
    """Queue a task by name once the surrounding transaction is in the database, or never."""
    transaction.on_commit(partial(_send, task_name, kwargs), robust=True)


def send_again(task_name: str, **kwargs: Argument) -> None:
    """As `send_on_commit`, for what may be queued already: not within AGAIN_AFTER of the last time.

    So a queue that is long grows no longer by what waits in it.
    """
    if cache.add(_mark(task_name, kwargs), 1, timeout=AGAIN_AFTER):
        send_on_commit(task_name, **kwargs)


def _send(task_name: str, kwargs: dict[str, Argument]) -> None:
    """A broker that is down delays the work; the beat finds it."""
    try:
        current_app.send_task(task_name, kwargs=kwargs, retry=True, retry_policy=_ONCE_MORE)
        cache.set(_mark(task_name, kwargs), 1, timeout=AGAIN_AFTER)
    except OperationalError as error:
        logger.warning("%s was not queued, the beat will find it: %s", task_name, error)


def _mark(task_name: str, kwargs: dict[str, Argument]) -> str:
    """Where the cache keeps that this message was sent a moment ago."""
    return f"sent:{task_name}:" + ",".join(f"{name}={kwargs[name]}" for name in sorted(kwargs))
