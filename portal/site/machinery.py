"""What the broker and the workers say of themselves, as far as they answer."""

from dataclasses import dataclass

from celery import current_app
from kombu.exceptions import OperationalError

PATIENCE = {"socket_connect_timeout": 1, "socket_timeout": 1}  # seconds
ANSWER_WITHIN = 0.5  # seconds that workers have to answer


@dataclass(frozen=True, slots=True)
class Worker:
    """tasks: names of what it is at."""

    name: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machinery:
    """waiting: messages that no worker has taken yet; None where the broker does not answer."""

    waiting: int | None
    workers: tuple[Worker, ...]


def look_at_machinery() -> Machinery:
    """Takes as long as workers are given to answer."""
    with current_app.connection_for_write() as broker:
        broker.transport_options = {**broker.transport_options, **PATIENCE}
        try:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=1)
            queue = current_app.conf.task_default_queue
            waiting = broker.default_channel.queue_declare(queue, passive=False).message_count
            answers = current_app.control.inspect(timeout=ANSWER_WITHIN, connection=broker).active()
        except (OperationalError, OSError):
            return Machinery(None, ())
    workers = sorted((answers or {}).items())
    return Machinery(waiting, tuple(Worker(name, tuple(_names(tasks))) for name, tasks in workers))


def _names(tasks: list[dict[str, object]]) -> list[str]:
    return sorted(str(task["name"]) for task in tasks)
