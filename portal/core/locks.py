from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from django.db import connection


class LockSpace(IntEnum):
    """First half of a Postgres advisory lock key. Append only: a reused number is a shared lock."""

    CYCLE = 1
    WATCH = 2
    RECONCILE = 3
    JOB = 4
    FEED = 5
    OUTLOOK = 6
    TENANCY = 7
    NODE_CHANGE = 8
    TELLING = 9
    ADOPTION = 10


@contextmanager
def advisory_lock(space: LockSpace, key: int) -> Iterator[bool]:
    """Hold a session lock on (space, key) for the block; yields False at once when it is taken.

    The lock belongs to the database session: it goes with the process, however that dies.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [space, _int4(key)])
        (held,) = cursor.fetchone()
    try:
        yield held
    finally:
        if held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [space, _int4(key)])


@contextmanager
def advisory_locks(space: LockSpace, keys: Iterable[int]) -> Iterator[frozenset[int]]:
    """As `advisory_lock` for many keys, in one query: yields those that were free, now held."""
    by_number = {_int4(key): key for key in keys}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT key FROM unnest(%s::int[]) AS key WHERE pg_try_advisory_lock(%s, key)",
            [list(by_number), space],
        )
        held = [number for (number,) in cursor.fetchall()]
    try:
        yield frozenset(by_number[number] for number in held)
    finally:
        if held:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_advisory_unlock(%s, key) FROM unnest(%s::int[]) AS key",
                    [space, held],
                )


def held_of(space: LockSpace, keys: Iterable[int]) -> set[int]:
    """Those of `keys` whose lock somebody holds, in any session of this database. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND classid = %s AND objsubid = 2",
            [space],
        )
        held = {key for (key,) in cursor}
    return {key for key in keys if _int4(key) % 2**32 in held}


def hold_name(name: str) -> None:
    """Wait for `name`, then hold it until the surrounding transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def _int4(key: int) -> int:
    """`key` folded into PostgreSQL's int4: the two-key locks take no more."""
    return (key + 2**31) % 2**32 - 2**31
