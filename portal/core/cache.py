"""The cache in Valkey. What is kept in it are hints, so one that is away is one that is empty."""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


class PatientCache(RedisCache):
    """As Django's; while the server does not answer, nothing is found and nothing is kept."""

    def add(self, *args: Any, **kwargs: Any) -> bool:
        """True when nobody is known to have kept it before."""
        return bool(_tried(super().add, *args, otherwise=True, **kwargs))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return _tried(super().get, key, default, version, otherwise=default)

    def set(self, *args: Any, **kwargs: Any) -> None:
        _tried(super().set, *args, otherwise=None, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        return bool(_tried(super().delete, *args, otherwise=False, **kwargs))

    def get_many(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return dict(_tried(super().get_many, *args, otherwise={}, **kwargs))


def _tried(call: Callable[..., Any], *args: Any, otherwise: Any, **kwargs: Any) -> Any:
    """What `call` returns, or `otherwise` when the server does not answer."""
    try:
        return call(*args, **kwargs)
    except RedisError as error:
        logger.warning("the cache does not answer: %s", error)
        return otherwise
