import logging
from functools import partial

from celery import current_app
from django.core.cache import cache
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

AGAIN_AFTER = 30  # seconds
# Once more at once: a pooled connection may be to a broker that has been restarted since.
_ONCE_MORE = {"max_retries": 1, "interval_start": 0}


def send_on_commit(task_name: str, **kwargs: int | str) -> None:
    """Queue a task by name once the surrounding transaction is in the database, or never."""
    transaction.on_commit(partial(_send, task_name, kwargs), robust=True)


def send_again(task_name: str, **kwargs: int | str) -> None:
    """As `send_on_commit`, for what may be queued already: not twice within AGAIN_AFTER.

    So a queue that is long grows no longer by what waits in it.
    """
    arguments = ",".join(f"{name}={value}" for name, value in sorted(kwargs.items()))
    if cache.add(f"sent-again:{task_name}:{arguments}", 1, timeout=AGAIN_AFTER):
        send_on_commit(task_name, **kwargs)


def _send(task_name: str, kwargs: dict[str, int | str]) -> None:
    """A broker that is down delays the work; the beat finds it."""
    try:
        current_app.send_task(task_name, kwargs=kwargs, retry=True, retry_policy=_ONCE_MORE)
    except OperationalError as error:
        logger.warning("%s was not queued, the beat will find it: %s", task_name, error)
