"""Services that the caller brings: a wrong address is said at once, and not by whoever needs it."""

import re
from contextlib import closing

import psycopg
import redis

from portal.embedded.programs import CannotStart

PATIENCE_SECONDS = 5


def require_database(url: str) -> None:
    """CannotStart unless a PostgreSQL answers at `url`."""
    try:
        _connect(url).close()
    except psycopg.Error as error:
        raise _unusable("DATABASE_URL", "PostgreSQL", error) from error


def has_tables(url: str) -> bool:
    """Whether migrations were ever run in the database at `url`: it may have been emptied since."""
    with _connect(url) as connection:
        return connection.execute("SELECT to_regclass('django_migrations')").fetchone() != (None,)


def _connect(url: str) -> psycopg.Connection:
    plain = re.sub(r"^(psql|pgsql)://", "postgresql://", url)
    return psycopg.connect(plain, connect_timeout=PATIENCE_SECONDS)


def require_broker(url: str) -> None:
    """CannotStart unless a Valkey, or what speaks like one, answers at `url`."""
    patience = {
        "socket_connect_timeout": PATIENCE_SECONDS,
        "socket_timeout": PATIENCE_SECONDS,
    }
    try:
        with closing(redis.Redis.from_url(url, **patience)) as broker:
            broker.ping()
    except (redis.RedisError, ValueError) as error:
        raise _unusable("REDIS_URL", "Valkey", error) from error


def _unusable(variable: str, service: str, error: Exception) -> CannotStart:
    reason = str(error).strip().split("\n", 1)[0]
    return CannotStart(
        f"What {variable} names cannot be used: {reason}\n"
        f"Mend it, or unset {variable}: bin/run then brings a {service} of its own."
    )
