"""Submits the jobs of a feed when their time has come, and says how far it is."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

from portal.core import clock
from portal.core.errors import PortalError
from scheduling.services.feeding import Feed, feed_job, not_fed
from scheduling.simulation.trace import TraceJob
from topology.models import Cluster

LONGEST_NAP = 1.0  # seconds of ours: the cluster's speed may change meanwhile
SHORTEST_NAP = 0.005
REPORT_EVERY = 5.0
BAR_EVERY = 0.1
BAR_WIDTH = 30
CLOCK_FIELDS = ("clock_at", "clock_wall_at", "clock_speed")


class Progress:
    """A bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, out: TextIO, total: int) -> None:
        self._out = out
        self._total = total
        self._is_terminal = out.isatty()
        self._said_at = time.monotonic()

    def show(self, done: int, now: datetime) -> None:
        """Say how far it is, unless that was said a moment ago. now: cluster clock."""
        every = BAR_EVERY if self._is_terminal else REPORT_EVERY
        if time.monotonic() - self._said_at >= every:
            self._say(done, now)

    def end(self, done: int, now: datetime) -> None:
        self._say(done, now)
        if self._is_terminal:
            self._out.write("\n")

    def _say(self, done: int, now: datetime) -> None:
        self._said_at = time.monotonic()
        text = f"{done} of {self._total} jobs submitted; the cluster's clock shows {now:%F %T}"
        if self._is_terminal:
            filled = BAR_WIDTH * done // max(1, self._total)
            self._out.write(f"\r[{'#' * filled:<{BAR_WIDTH}}] {text}")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()


def run_feed(
    feed: Feed,
    jobs: Sequence[TraceJob],
    *,
    out: TextIO,
    beside: tuple[Feed, Sequence[TraceJob]] | None = None,
) -> list[str]:
    """Submit what was not submitted yet, each job when it is due; a sentence per refused job.

    beside: another feed to the same cluster, whose jobs come in between.
    """
    refused: list[str] = []
    feeds = [(feed, jobs)] if beside is None else [(feed, jobs), beside]
    waiting = [(own, job) for own, of in feeds for job in not_fed(own, of)]
    waiting.sort(key=lambda pair: pair[0].due_at(pair[1]))
    total = sum(len(of) for _, of in feeds)
    progress = Progress(out, total)
    for done, (own, job) in enumerate(waiting, start=total - len(waiting)):
        _wait_until(own.due_at(job), own.cluster, progress, done)
        try:
            feed_job(own, job)
        except PortalError as error:
            refused.append(f"job {job.key}: {error}")
    progress.end(total, clock.now(feed.cluster))
    return refused


def nap(seconds: float, cluster: Cluster) -> None:
    """Sleep `seconds` of the cluster's, or a moment of ours if that is shorter; look again then."""
    speed = cluster.clock_speed if cluster.clock_at else 1.0
    wall = seconds / speed if speed > 0 else LONGEST_NAP
    time.sleep(min(max(wall, SHORTEST_NAP), LONGEST_NAP))
    cluster.refresh_from_db(fields=CLOCK_FIELDS)


def _wait_until(due: datetime, cluster: Cluster, progress: Progress, done: int) -> None:
    while (left := (due - clock.now(cluster)).total_seconds()) > 0:
        progress.show(done, clock.now(cluster))
        nap(left, cluster)
    progress.show(done, clock.now(cluster))
