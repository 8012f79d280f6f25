"""Who really does what is done in somebody else's name, for as long as one request takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.utils.translation import gettext as _

from portal.core.errors import NotAllowed

_really: ContextVar[Any] = ContextVar("really", default=None)


@contextmanager
def acting(really: Any) -> Iterator[None]:
    """Have all audit lines within name `really`, a User, beside the one in whose name it is."""
    token = _really.set(really)
    try:
        yield
    finally:
        _really.reset(token)


def really() -> Any:
    """The User who does it in another's name, or None."""
    return _really.get()


def refuse_while_acting() -> None:
    """Refuse with NotAllowed what only the person themselves may do."""
    if really() is not None:
        raise NotAllowed(
            _("Only the person themselves may do this: end acting in their name first.")
        )
