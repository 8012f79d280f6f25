"""What time it is in a cluster.

A real cluster's clock is the wall clock. A simulated one runs at its own speed; the watcher notes
on the Cluster row what its clock showed (`clock_at`), when that was (`clock_wall_at`) and how fast
it runs (`clock_speed`, 0 while it stands still), and everybody computes the rest.
"""

from datetime import date, datetime, timedelta
from typing import Protocol

from django.utils import timezone


class HasClock(Protocol):
    clock_at: datetime | None
    clock_wall_at: datetime | None
    clock_speed: float


def now(cluster: HasClock) -> datetime:
    """The instant that `cluster`'s own clock shows."""
    return cluster_time(cluster, wall=timezone.now())


def cluster_time(cluster: HasClock, *, wall: datetime) -> datetime:
    """What `cluster`'s clock shows when the wall clock shows `wall`."""
    if cluster.clock_at is None or cluster.clock_wall_at is None:
        return wall
    elapsed: timedelta = wall - cluster.clock_wall_at
    return cluster.clock_at + elapsed * cluster.clock_speed


def day_in(cluster: HasClock, *, wall: datetime) -> date:
    """The day on `cluster`'s own clock when the wall clock shows `wall`, in the portal's zone."""
    return timezone.localdate(
        cluster_time(cluster, wall=wall), timezone=timezone.get_default_timezone()
    )
