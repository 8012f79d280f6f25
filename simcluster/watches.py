"""Watches: changes from a version on, as they happen, with bookmarks and an honest end."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from simcluster import errors, tables
from simcluster.objects import Obj, Stored, name_of, namespace_of
from simcluster.reads import encoded, selection
from simcluster.requests import Request, Response, Target, dump
from simcluster.resources import Resource
from simcluster.selectors import Predicate
from simcluster.store import Event
from simcluster.world import World

BOOKMARK_SECONDS = 60.0
DEFAULT_SECONDS = 1800
SLOW_WATCH = 20_000  # changes a client may lag behind before its watch is closed without a word


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a watch: what happened, and to which object as it then was."""

    kind: str
    obj: Stored


class Watch:
    """One client's view of one kind of object; `offer` is called for every change of it."""

    def __init__(self, target: Target, matches: Predicate, *, after: int = 0) -> None:
        """after: changes up to that version are not told, should it be one of the future."""
        self.target = target
        self._matches = matches
        self._after = after
        self._waiting: deque[Change] = deque()
        self._something = asyncio.Event()
        self.closed = False

    def offer(self, event: Event) -> None:
        if event.version <= self._after:
            return
        if self.target.name and name_of(event.obj) != self.target.name:
            return
        if self.target.namespace and namespace_of(event.obj) != self.target.namespace:
            return
        change = self._as_seen(event)
        if change is None:
            return
        self._waiting.append(change)
        self._something.set()
        if len(self._waiting) > SLOW_WATCH:
            self.close()

    def is_behind(self, version: int) -> bool:
        """Whether a bookmark of that version would be news to this client."""
        return not self.closed and version > self._after

    def push(self, change: Change) -> None:
        self._waiting.append(change)
        self._something.set()

    def close(self) -> None:
        self.closed = True
        self._something.set()

    async def next(self, seconds: float) -> list[Change]:
        """What has come; waits up to `seconds` for it. Empty when nothing came."""
        if not self._waiting and not self.closed:
            self._something.clear()
            try:
                await asyncio.wait_for(self._something.wait(), seconds)
            except TimeoutError:
                return []
        changes = list(self._waiting)
        self._waiting.clear()
        return changes

    def _as_seen(self, event: Event) -> Change | None:
        """A change through the watch's selector: what stops to match is deleted for it."""
        now = event.kind != "DELETED" and self._matches(event.obj)
        before = event.old is not None and self._matches(event.old)
        if now:
            return Change("MODIFIED" if before else "ADDED", event.obj)
        if not before:
            return None
        if event.kind == "DELETED":
            return Change("DELETED", event.obj)
        assert event.old is not None  # noqa: S101 - it matched before, so there was one
        metadata = {
            **event.old["metadata"],
            "resourceVersion": event.obj["metadata"]["resourceVersion"],
        }
        return Change("DELETED", Stored({**event.old, "metadata": metadata}))


class Watches:
    """All open watches, by kind of object."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[str, dict[Watch, None]] = {}
        world.store.listeners.append(self._publish)

    def drop(self, resource: Resource | None = None) -> int:
        """Close open watches without a word; returns how many."""
        dropped = 0
        for resource_id, watches in self._open.items():
            if resource is None or resource.id == resource_id:
                for watch in watches:
                    watch.close()
                    dropped += 1
        return dropped

    def open(self, request: Request, target: Target) -> Response:
        """The answer to a watch: a stream of changes."""
        store = self._world.store
        text = request.query.get("resourceVersion", "")
        version = request.number("resourceVersion") or 0
        matches = selection(request, target.resource)
        initial = request.query.get("sendInitialEvents")
        watch = Watch(target, matches, after=version)
        frames = _Frames(request, target.resource, self._world)
        if version and initial != "true" and store.is_too_old(version):
            return Response(stream=_one(frames.expired(version)))
        if initial == "true" or (text in {"", "0"} and initial != "false"):
            self._send_present(watch, matches)
            if initial == "true":
                watch.push(Change("BOOKMARK", frames.bookmark(initial=True)))
        else:
            for event in store.since(version):
                if event.resource is target.resource:
                    watch.offer(event)
        seconds = request.number("timeoutSeconds") or DEFAULT_SECONDS
        self._open.setdefault(target.resource.id, {})[watch] = None
        return Response(stream=self._stream(watch, frames, seconds=seconds))

    def _send_present(self, watch: Watch, matches: Predicate) -> None:
        target = watch.target
        for obj in self._world.store.all(target.resource, target.namespace):
            if matches(obj) and target.name in {"", name_of(obj)}:
                watch.push(Change("ADDED", obj))

    def _publish(self, event: Event) -> None:
        for watch in self._open.get(event.resource.id, ()):
            watch.offer(event)

    async def _stream(
        self, watch: Watch, frames: "_Frames", *, seconds: float
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        try:
            while not watch.closed:
                left = ends - loop.time()
                if left <= 0:
                    break
                changes = await watch.next(min(left, BOOKMARK_SECONDS))
                for change in changes:
                    yield frames.frame(change)
                if not changes and frames.bookmarks and watch.is_behind(self._world.store.version):
                    yield frames.frame(Change("BOOKMARK", frames.bookmark(initial=False)))
        finally:
            self._open[watch.target.resource.id].pop(watch, None)


class _Frames:
    """The lines of one watch, as its client likes them."""

    def __init__(self, request: Request, resource: Resource, world: World) -> None:
        self._resource = resource
        self._world = world
        self._form = tables.wanted_form(request.headers)
        self._whole = request.query.get("includeObject", "Metadata")
        self.bookmarks = request.flag("allowWatchBookmarks")

    def frame(self, change: Change) -> bytes:
        head = b'{"type":"' + change.kind.encode() + b'","object":'
        return head + self._object(change) + b"}\n"

    def bookmark(self, *, initial: bool) -> Stored:
        version = str(self._world.store.version)
        metadata: Obj = {"resourceVersion": version, "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        head = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return Stored({**head, "metadata": metadata})

    def expired(self, version: int) -> bytes:
        oldest = self._world.store.version
        status = errors.expired(f"too old resource version: {version} ({oldest})").status()
        return dump({"type": "ERROR", "object": status}) + b"\n"

    def _object(self, change: Change) -> bytes:
        if self._form is None or change.kind == "BOOKMARK":
            return encoded(change.obj)
        form = tables.Form(self._form, self._whole)
        now = self._world.clock.now()
        return dump(tables.table(self._resource, [change.obj], now=now, form=form))


async def _one(line: bytes) -> AsyncIterator[bytes]:
    yield line
