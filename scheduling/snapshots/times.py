from datetime import datetime


def seconds(at: datetime) -> int:
    """`at` in whole seconds since the epoch, as the engine counts time."""
    return int(at.timestamp())
