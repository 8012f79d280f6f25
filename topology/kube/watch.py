"""A cluster's events as values; it calls nobody, one takes from it.

Each kind is listed, then watched from that list on, in a thread of its own; all feed one bounded
mailbox, so that a slow taker slows the readers down rather than filling memory, and is told the
newest of each thing rather than all that it was on the way. What is told of one thing comes in the
cluster's order; between kinds there is no order.

A watch that ends without a word goes on from the last version seen. A version that the cluster no
longer has, or a cluster that was out of reach (and may have come back as another), means a new
list: `ListBegun` says which version it is of, then come all the things, then `Listed` says what is
there, so that the rest can be taken for gone.

Pods that are not ours are told node by node, as what they take of it all together.
"""

import gc
import json
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from portal.core.errors import ClusterAway
from topology.kube import claims, names, parse, usage
from topology.kube.mailbox import Mailbox
from topology.kube.others import Others
from topology.kube.values import ClockSeen, ListBegun, Listed, NodeSeen, Seen
from topology.kube.wire import (
    GONE,
    WITHOUT,
    ApiError,
    Backoff,
    Obj,
    Request,
    Stream,
    Wire,
    pages,
    selectors,
)

logger = logging.getLogger(__name__)

MAILBOX_LENGTH = 2000
WATCH_SECONDS = 290  # asked of the server; below the five minutes of common proxies
QUIET_SECONDS = 90.0  # bookmarks come once a minute: longer silence is a dead line
SHORT_SECONDS = 1.0  # a watch that ends sooner is not asked for again at once
CLOCK_SECONDS = 1.0
PULSE_SECONDS = 10.0
WITHOUT_SECONDS = 60.0  # until a cluster is asked again for what it has not
_TURN_SECONDS = 0.2
_FEW_COLLECTIONS = (50_000, 20, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is followed: `read` makes the value of an object, or None of one that is not ours.

    selector, fields: of labels and of fields, as the API has them; empty for all.
    read: None where objects are not told one by one.
    optional: a cluster may not have it, or not let us see it.
    """

    name: str
    path: str
    selector: str
    fields: str = ""
    read: Callable[..., Seen | None] | None
    key: Callable[[Obj], str]
    optional: bool = False


def _group_key(job: Obj) -> str:
    labels = job["metadata"].get("labels") or {}
    return f"{labels.get(names.JOB)}/{labels.get(names.GROUP)}"


def _uid(pod: Obj) -> str:
    return str(pod["metadata"]["uid"])


NODES = Kind(
    name="nodes",
    path="/api/v1/nodes",
    selector="",
    read=parse.node_seen,
    key=lambda node: str(node["metadata"]["name"]),
)
MEMBERS = Kind(
    name="members",
    path="/api/v1/pods",
    selector=names.JOB,
    read=parse.labelled_seen,
    key=_uid,
)
GROUPS = Kind(
    name="groups",
    path="/apis/batch/v1/jobs",
    selector=names.JOB,
    read=parse.group_seen,
    key=_group_key,
)
OTHERS = Kind(
    name="others",
    path=MEMBERS.path,
    selector=f"!{names.JOB}",
    fields=usage.TAKING,
    read=None,
    key=_uid,
)

CLAIMS = Kind(
    name="claims",
    path=claims.CLAIMS_PATH,
    selector=names.JOB,
    read=claims.claimed_seen,
    key=_uid,
    optional=True,
)
CLAIMABLES = Kind(
    name="claimables",
    path=claims.SLICES_PATH,
    selector="",
    read=claims.claimables_seen,
    key=NODES.key,
    optional=True,
)


def collect_seldom() -> None:
    """Have this process look seldom for garbage that only cycles keep alive.

    What a cluster tells is read into objects without any, and so many at a time that looking
    through them took half of the time of a list.
    """
    gc.freeze()
    gc.set_threshold(*_FEW_COLLECTIONS)


class ClusterWatch:
    """`with ClusterWatch(…) as watch: for seen in watch: …`, until `stop` is set.

    wire: called before each list, so that a cluster that has moved is found again.
    wall: the wall clock.
    has_clock: the cluster is simulated, and its clock is to be read.
    name: of the cluster, for the log.
    """

    def __init__(
        self,
        wire: Callable[[], Wire],
        *,
        wall: Callable[[], datetime],
        stop: threading.Event,
        has_clock: bool = False,
        name: str = "cluster",
    ) -> None:
        self._wire = wire
        self._name = name
        self._wall = wall
        self._stop = stop
        self._ended = threading.Event()
        self._has_clock = has_clock
        self._mailbox = Mailbox(MAILBOX_LENGTH)
        self._streams: set[Stream] = set()
        self._clock_read = threading.Event()  # times of the cluster mean little before
        self._others = Others()
        self._knows_others = False  # all of them: before, a node would seem to have more room
        self._told_nodes: set[str] = set()
        self._order = threading.Lock()  # of what is told of a node and of the others on it
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), name=kind.name, daemon=True)
            for kind in (NODES, GROUPS, MEMBERS, OTHERS, CLAIMS, CLAIMABLES)
        ]
        self._threads.append(threading.Thread(target=self._pulse, name="pulse", daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for stream in list(self._streams):
            stream.close()
        deadline = time.monotonic() + 0.5
        for thread in self._threads:
            # One that is left sits in a call, and ends after it or with the process.
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def __iter__(self) -> Iterator[Seen]:
        while not self._stop.is_set():
            seen = self._mailbox.take(seconds=_TURN_SECONDS)
            if seen is not None:
                yield seen

    def _follow(self, kind: Kind) -> None:
        """List and watch one kind until the end."""
        backoff = Backoff(first=0.2, most=5.0)
        version: int | None = None
        is_away = False
        while not self._ended.is_set():
            try:
                wire = self._wire()
                if version is None:
                    self._wait_for_clock()
                    version = self._list(wire, kind)
                    is_away = False
                    backoff.reset()
                version = self._watch(wire, kind, version)
            except (ClusterAway, ApiError) as error:
                version = None
                if kind.optional and isinstance(error, ApiError) and error.status in WITHOUT:
                    self._ended.wait(WITHOUT_SECONDS)
                    continue
                self._say_why(kind, error, is_news=not is_away)
                is_away = not _is_expired(error)
                self._ended.wait(backoff.seconds())

    def _say_why(self, kind: Kind, error: Exception, *, is_news: bool) -> None:
        if _is_expired(error):
            logger.info("%s: %s are listed anew: %s", self._name, kind.name, error)
        elif not self._ended.is_set():
            level = logging.WARNING if is_news else logging.DEBUG
            logger.log(level, "%s: %s are out of reach: %s", self._name, kind.name, error)

    def _wait_for_clock(self) -> None:
        while not self._ended.is_set() and not self._clock_read.wait(_TURN_SECONDS):
            pass

    def _list(self, wire: Wire, kind: Kind) -> int:
        """Put all there is, and say where it begins and ends; the version that the list is of."""
        keys: set[str] = set()
        version = -1
        for page in pages(wire, kind.path, selector=kind.selector, fields=kind.fields):
            if version < 0:
                begun = ListBegun(kind=kind.name, version=parse.version_of(page))
                self._put(("begun", kind.name), begun, last=True)
            version = parse.version_of(page)
            for obj in page["items"]:
                keys.add(kind.key(obj))
                self._read(kind, obj, gone=False)
        there = frozenset(keys) if kind.read else self._tell_others(keys)
        listed = Listed(kind=kind.name, keys=there, version=version)
        self._put(("listed", kind.name), listed, last=True)
        logger.info("%s: %d %s as of version %d", self._name, len(keys), kind.name, version)
        return version

    def _watch(self, wire: Wire, kind: Kind, version: int) -> int:
        """Put what changes after `version`; the last version seen when the watch ends.

        ApiError, ClusterAway: it cannot go on from there.
        """
        # A watch from a version that the cluster has not come to yet is silent, and stays so when
        # that version was another cluster's, or this one's before it was restored. A list says.
        wire.ask(Request(method="GET", path=kind.path, query=_known_query(version)))
        began = time.monotonic()
        stream = wire.follow(_watch_request(kind, version), quiet_seconds=QUIET_SECONDS)
        self._streams.add(stream)
        try:
            for line in stream:
                if self._ended.is_set():
                    break  # what still comes out of a stream that is closed may be torn
                version = self._take(kind, line) or version
        except ClusterAway as error:
            if not self._ended.is_set():
                logger.info("%s: %s go on at %d: %s", self._name, kind.name, version, error)
        finally:
            self._streams.discard(stream)
            stream.close()
        if time.monotonic() - began < SHORT_SECONDS:
            self._ended.wait(_TURN_SECONDS)
        return version

    def _take(self, kind: Kind, line: bytes) -> int:
        """Put what one line says; its version, or 0."""
        if not line.strip():
            return 0
        try:
            event: dict[str, Any] = json.loads(line)
            what, obj = event["type"], event["object"]
        except (KeyError, TypeError, ValueError) as error:
            raise ClusterAway("a line of the watch is torn") from error
        if what == "ERROR":
            raise ApiError(
                int(obj.get("code", 0)),
                reason=obj.get("reason", ""),
                message=obj.get("message", "the watch was ended"),
            )
        if what != "BOOKMARK":
            self._read(kind, obj, gone=what == "DELETED")
        return parse.version_of(obj)

    def _read(self, kind: Kind, obj: Obj, *, gone: bool) -> None:
        try:
            seen = kind.read(obj, gone=gone) if kind.read else self._note_other(obj, gone=gone)
        except (ArithmeticError, KeyError, TypeError, ValueError):
            name = obj.get("metadata", {}).get("name")
            logger.exception("%s: %s %s is not understood", self._name, kind.name, name)
            return
        if seen is not None:
            self._put((kind.name, kind.key(obj)), seen)
        if isinstance(seen, NodeSeen):
            self._tell_others_on(seen)

    def _note_other(self, pod: Obj, *, gone: bool) -> None:
        with self._order:
            node = self._others.note(pod, gone=gone)
            if self._knows_others:
                self._put_others(node)

    def _tell_others(self, uids: set[str]) -> frozenset[str]:
        """Put what is taken of each node, now that all is known; the nodes."""
        with self._order:
            self._others.keep(uids)
            self._knows_others = True
            nodes = self._others.nodes()
            for node in sorted(nodes):
                self._put_others(node)
        return nodes

    def _tell_others_on(self, node: NodeSeen) -> None:
        """Put what is taken of a node that is new: it may have been told before the node was."""
        with self._order:
            if node.gone:
                self._told_nodes.discard(node.name)
            elif node.name not in self._told_nodes:
                self._told_nodes.add(node.name)
                if self._knows_others and node.name in self._others.nodes():
                    self._put_others(node.name)

    def _put_others(self, node: str) -> None:
        self._put(("others", node), self._others.seen(node), last=True)

    def _put(self, about: Hashable, seen: Seen, *, last: bool = False) -> None:
        while not self._ended.is_set():
            if self._mailbox.put(about, seen, seconds=_TURN_SECONDS, last=last):
                return

    def _pulse(self) -> None:
        """Say from time to time that the cluster answers, and what its own clock shows."""
        seconds = CLOCK_SECONDS if self._has_clock else PULSE_SECONDS
        while not self._ended.is_set():
            try:
                self._put("clock", self._ask_time(self._wire()))
                self._clock_read.set()
            except ApiError as error:
                logger.warning("%s tells no time: %s", self._name, error)
                self._clock_read.set()
            except ClusterAway as error:
                logger.debug("%s: no pulse: %s", self._name, error)  # the lists say it louder
            self._ended.wait(seconds)

    def _ask_time(self, wire: Wire) -> ClockSeen:
        """The answer is taken to be of the middle of the call."""
        path = "/simcluster/clock" if self._has_clock else "/version"
        before = self._wall()
        answer = wire.ask(Request(method="GET", path=path))
        slack = (self._wall() - before) / 2
        seen = parse.clock_seen(answer if self._has_clock else {}, wall=before + slack)
        return replace(seen, slack=slack)


def _is_expired(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.status == GONE


def _known_query(version: int) -> dict[str, str]:
    """Of a short list that the cluster can only give once it has come to that version."""
    return {"limit": "1", "resourceVersion": str(version)}


def _watch_request(kind: Kind, version: int) -> Request:
    query = {
        "watch": "true",
        "resourceVersion": str(version),
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(WATCH_SECONDS),
    }
    query |= selectors(kind.selector, kind.fields)
    return Request(method="GET", path=kind.path, query=query)
