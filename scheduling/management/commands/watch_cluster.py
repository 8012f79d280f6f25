"""Takes in what the clusters report, for as long as it runs.

One process at a time works on a cluster: the one that holds its lock. The lock is the database
session's, so whatever ends the process lets the next one in, which lists everything anew.
"""

import gc
import logging
import signal
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from portal.core import clock
from portal.core.liveness import show_life
from portal.core.locks import LockSpace, advisory_lock
from scheduling.services.observation import observe
from topology.kube.live import connect
from topology.kube.values import (
    ClaimablesSeen,
    ClockSeen,
    ListBegun,
    Listed,
    NodeSeen,
    OthersSeen,
    Seen,
)
from topology.kube.watch import ClusterWatch, collect_seldom
from topology.kube.wire import Backoff
from topology.models import Cluster
from topology.services.claiming import observe_claimables, observe_listed_claimables
from topology.services.foreign import observe_listed_others, observe_others
from topology.services.inventory import (
    observe_clock,
    observe_listed_nodes,
    observe_node,
    observe_nodes_list_begun,
)

logger = logging.getLogger(__name__)

AWAY = (OperationalError, InterfaceError)  # what a database that is not there looks like
TURN_SECONDS = 1.0
LOOK_SECONDS = 5.0
END_SECONDS = 1.5


class Command(BaseCommand):
    help = "Take in what the clusters report: nodes, members, ends of jobs, the simulated clock."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--cluster", default="", metavar="SLUG", help="this one (default: all)")

    def handle(self, *, cluster: str, **_options: Any) -> None:
        asked_to_stop: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _frame: asked_to_stop.append(number))
        collect_seldom()
        watchers = Watchers(cluster)
        next_look = 0.0
        while not asked_to_stop:
            if time.monotonic() >= next_look:
                show_life()
                watchers.look()
                next_look = time.monotonic() + LOOK_SECONDS
            time.sleep(0.1)
        watchers.end()
        gc.freeze()  # tidying up the client's many classes would take the interpreter seconds


class Watchers:
    """A thread for each cluster, started when the cluster is first seen and again if it fails."""

    def __init__(self, slug: str = "") -> None:
        """slug: of the one cluster to watch; empty for all there are."""
        self._slug = slug
        self._stop = threading.Event()
        self._threads: dict[int, threading.Thread] = {}

    def look(self) -> None:
        """Start what is to run and does not."""
        try:
            found = Cluster.objects.filter(slug=self._slug) if self._slug else Cluster.objects.all()
            ids = list(found.order_by("pk").values_list("pk", flat=True))
        except AWAY as error:
            logger.warning("the database does not answer, trying again: %s", first_line(error))
            connection.close()
            return
        if not ids:
            logger.info("there is no cluster %s yet, looking again", self._slug or "at all")
        for cluster_id in ids:
            known = self._threads.get(cluster_id)
            if known is None or not known.is_alive():
                self._threads[cluster_id] = Watcher(cluster_id, self._stop)
                self._threads[cluster_id].start()

    def end(self) -> None:
        self._stop.set()
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        logger.info("stopped")


class Watcher(threading.Thread):
    """Watches one cluster whenever no other process does."""

    def __init__(self, cluster_id: int, stop: threading.Event) -> None:
        super().__init__(name=f"cluster-{cluster_id}", daemon=True)
        self._cluster_id = cluster_id
        self._stop_asked = stop
        self._waits = False

    def run(self) -> None:
        backoff = Backoff(first=0.5, most=5.0)
        while not self._stop_asked.is_set():
            try:
                self._take_turn()
                backoff.reset()
            except AWAY as error:
                logger.warning("the database does not answer, trying again: %s", first_line(error))
                connection.close()
                self._stop_asked.wait(backoff.seconds())
        connection.close()

    def _take_turn(self) -> None:
        with advisory_lock(LockSpace.WATCH, self._cluster_id) as held:
            if held:
                self._waits = False
                self._watch(Cluster.objects.get(pk=self._cluster_id))
                return
        if not self._waits:
            logger.info("cluster %d is watched by another, standing by", self._cluster_id)
        self._waits = True
        self._stop_asked.wait(TURN_SECONDS)

    def _watch(self, cluster: Cluster) -> None:
        logger.info("watching %s", cluster.slug)
        watch = ClusterWatch(
            lambda: connect(cluster.kubeconfig_path, writes=False).wire,
            name=cluster.slug,
            wall=timezone.now,
            stop=self._stop_asked,
            has_clock=cluster.is_simulated,
        )
        with watch:
            for seen in watch:
                take_in(cluster, seen)
        logger.info("no longer watching %s", cluster.slug)


def take_in(cluster: Cluster, seen: Seen) -> None:
    """Write down one report. One that cannot be is logged: the others must not wait for it.

    Whoever writes it down opens the transactions, so that one report may need several.
    """
    try:
        _dispatch(cluster, seen)
    except AWAY:
        raise
    except Exception:  # a report of one thing must not stop those of all others
        logger.exception("%s: not taken in: %r", cluster.slug, seen)


def _dispatch(cluster: Cluster, seen: Seen) -> None:
    match seen:
        case NodeSeen():
            if observe_node(cluster, seen, at=timezone.now()):
                logger.info("%s: node %s changed", cluster.slug, seen.name)
        case ListBegun(kind="nodes"):
            observe_nodes_list_begun(cluster, seen)
        case Listed(kind="nodes"):
            gone = observe_listed_nodes(cluster, seen, at=timezone.now())
            logger.info("%s: %d nodes, %d gone", cluster.slug, len(seen.keys), gone)
        case ClaimablesSeen():
            observe_claimables(cluster, seen, at=timezone.now())
        case Listed(kind="claimables"):
            observe_listed_claimables(cluster, seen, at=timezone.now())
        case OthersSeen():
            observe_others(cluster, seen)
        case Listed(kind="others"):
            observe_listed_others(cluster, seen)
        case ClockSeen():
            observe_clock(cluster, seen)
        case _:
            observe(cluster, seen, at=clock.now(cluster))


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
