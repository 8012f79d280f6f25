from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import BigIntegerField, Count, Func, QuerySet, Sum


@contextmanager
def consistent_read() -> Iterator[None]:
    """Every query in the block sees one and the same instant of the database; none may write.

    Inside somebody else's transaction (a test's, say) the isolation level is theirs and stays.
    """
    with transaction.atomic():
        if len(connection.atomic_blocks) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class RowHash(Func):
    """A number of 64 bits that stands for the values of one row."""

    template = "hash_record_extended(ROW(%(expressions)s), 0)"
    output_field = BigIntegerField()


def digest_of(rows: "QuerySet[Any, Any]", *columns: str) -> tuple[int, int]:
    """What tells these columns of `rows` from what they held before. One query.

    How many rows there are and the sum of their hashes, in whatever order: the database adds up
    thousands of them in the time in which a few dozen are fetched.
    """
    found = rows.order_by().aggregate(n=Count("pk"), total=Sum(RowHash(*columns)))
    return found["n"], int(found["total"] or 0)
