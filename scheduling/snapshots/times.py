from datetime import datetime

from django.db.models import BigIntegerField, Func


def seconds(at: datetime) -> int:
    """`at` in whole seconds since the epoch, as the engine counts time."""
    return int(at.timestamp())


class Seconds(Func):
    """As `seconds`, of a column, worked out by the database."""

    template = "floor(date_part('epoch', %(expressions)s))::bigint"
    output_field = BigIntegerField()
