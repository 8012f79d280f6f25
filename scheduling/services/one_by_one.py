import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, transaction

logger = logging.getLogger(__name__)

Thing = TypeVar("Thing")


def one_by_one(things: Iterable[Thing], work: Callable[[Thing], object]) -> None:
    """Do `work` to each of `things`, in a transaction of its own.

    One that fails is left as it was, and logged: the others must not wait for it. Raises what says
    that the database itself is away.
    """
    for thing in things:
        try:
            with transaction.atomic():
                work(thing)
        except (InterfaceError, OperationalError):
            raise
        except Exception:  # whatever is wrong with one is not wrong with the others
            logger.exception("left as it was: %s", thing)
