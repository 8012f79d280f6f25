"""All objects, one global counter of versions, and the history that watches read."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from simcluster.objects import Obj, Stored, draft, name_of, namespace_of, uid_of
from simcluster.resources import BY_ID, PODS, RESOURCES, Resource

HISTORY = 20_000

Key = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")
Change = Callable[[Obj], None]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object. `kind` is ADDED, MODIFIED or DELETED; `old` is None when added."""

    kind: str
    resource: Resource
    obj: Stored
    old: Stored | None
    version: int


class Store:
    """Objects by resource and (namespace, name), with the indexes the controllers need.

    A stored object is never changed in place: writers clone, change, and put.
    """

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Stored]] = {r.id: {} for r in RESOURCES}
        self._by_namespace: dict[tuple[str, str], dict[Key, None]] = {}
        self._children: dict[str, dict[tuple[str, Key], None]] = {}
        self._by_uid: dict[str, tuple[str, Key]] = {}
        self._pods_on: dict[str, dict[Key, None]] = {}
        self.version = 1
        self.history: deque[Event] = deque(maxlen=HISTORY)
        self.forgotten = 0  # the newest version that watches can no longer start from, less one
        self.listeners: list[Callable[[Event], None]] = []

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        return self._objects[resource.id].get((namespace, name))

    def by_uid(self, uid: str) -> tuple[Resource, Stored] | None:
        found = self._by_uid.get(uid)
        if found is None:
            return None
        resource_id, key = found
        return BY_ID[resource_id], self._objects[resource_id][key]

    def version_of(self, uid: str) -> str:
        """The resourceVersion of the object with that uid, or ""."""
        found = self.by_uid(uid)
        return "" if found is None else str(found[1]["metadata"]["resourceVersion"])

    def all(self, resource: Resource, namespace: str = "") -> Iterator[Stored]:
        """Objects of one kind, of one namespace when given; in no order."""
        objects = self._objects[resource.id]
        if not namespace:
            return iter(list(objects.values()))
        keys = self._by_namespace.get((resource.id, namespace), {})
        return iter([objects[key] for key in keys])

    def count(self, resource: Resource, namespace: str = "") -> int:
        if not namespace:
            return len(self._objects[resource.id])
        return len(self._by_namespace.get((resource.id, namespace), {}))

    def children(self, uid: str) -> list[tuple[Resource, Stored]]:
        """Objects that name `uid` among their owners."""
        found = self._children.get(uid, {})
        return [(BY_ID[rid], self._objects[rid][key]) for rid, key in found]

    def pods_on(self, node: str) -> list[Stored]:
        pods = self._objects[PODS.id]
        return [pods[key] for key in self._pods_on.get(node, {})]

    def put(self, resource: Resource, obj: Obj) -> Stored:
        """Keep `obj` under a new version and tell everybody. The caller gives `obj` away."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        stored = Stored(obj)
        key = (namespace_of(obj), name_of(obj))
        old = self._objects[resource.id].get(key)
        if old is not None:
            self._unindex(resource, old)
        self._objects[resource.id][key] = stored
        self._index(resource, stored)
        self._publish(Event("MODIFIED" if old else "ADDED", resource, stored, old, self.version))
        return stored

    def change(self, resource: Resource, obj: Stored, change: Change) -> Stored:
        """Apply `change` to a draft of the object as it is now; keep it if it differs at all."""
        now = self.get(resource, namespace_of(obj), name_of(obj))
        if now is None or uid_of(now) != uid_of(obj):
            return obj
        new = draft(now)
        change(new)
        return now if new == now else self.put(resource, new)

    def remove(self, resource: Resource, obj: Stored) -> None:
        """Forget the object. Watches see it as it was last, under the version of its removal."""
        key = (namespace_of(obj), name_of(obj))
        old = self._objects[resource.id].pop(key)
        self._unindex(resource, old)
        self.version += 1
        metadata = {**old["metadata"], "resourceVersion": str(self.version)}
        gone = Stored({**old, "metadata": metadata})
        self._publish(Event("DELETED", resource, gone, old, self.version))

    def load(self, objects: Iterable[tuple[Resource, Obj]], *, version: int) -> None:
        """Fill an empty store with what was saved; watches cannot start from before."""
        for resource, obj in objects:
            stored = Stored(obj)
            self._objects[resource.id][(namespace_of(obj), name_of(obj))] = stored
            self._index(resource, stored)
        self.version = self.forgotten = version

    def replay(self) -> Iterator[Event]:
        """Every object as if it had just been added, for controllers that start anew."""
        for resource in RESOURCES:
            for obj in self.all(resource):
                yield Event("ADDED", resource, obj, None, self.version)

    def is_too_old(self, version: int) -> bool:
        """True when changes after `version` may have been forgotten."""
        if version < self.forgotten:
            return True
        full = len(self.history) == HISTORY
        return full and version < self.history[0].version - 1

    def since(self, version: int) -> list[Event]:
        """Changes after `version`, oldest first."""
        newer: list[Event] = []
        for event in reversed(self.history):
            if event.version <= version:
                break
            newer.append(event)
        return newer[::-1]

    def as_of(self, version: int, resource: Resource, namespace: str = "") -> list[Stored]:
        """Objects of one kind as they were at `version`, which must not be too old; in no order."""
        objects = {(namespace_of(o), name_of(o)): o for o in self.all(resource, namespace)}
        for event in reversed(self.since(version)):
            if event.resource is not resource or namespace not in {"", namespace_of(event.obj)}:
                continue
            key = (namespace_of(event.obj), name_of(event.obj))
            if event.old is None:
                objects.pop(key, None)
            else:
                objects[key] = event.old
        return list(objects.values())

    def _publish(self, event: Event) -> None:
        self.history.append(event)
        for listener in self.listeners:
            listener(event)

    def _index(self, resource: Resource, obj: Stored) -> None:
        namespace = namespace_of(obj)
        key = (namespace, name_of(obj))
        self._by_uid[uid_of(obj)] = (resource.id, key)
        if namespace:
            self._by_namespace.setdefault((resource.id, namespace), {})[key] = None
        for owner in obj["metadata"].get("ownerReferences") or ():
            self._children.setdefault(owner["uid"], {})[(resource.id, key)] = None
        if resource is PODS and obj["spec"].get("nodeName"):
            self._pods_on.setdefault(obj["spec"]["nodeName"], {})[key] = None

    def _unindex(self, resource: Resource, obj: Stored) -> None:
        namespace = namespace_of(obj)
        key = (namespace, name_of(obj))
        self._by_uid.pop(uid_of(obj), None)
        if namespace:
            _drop(self._by_namespace, (resource.id, namespace), item=key)
        for owner in obj["metadata"].get("ownerReferences") or ():
            _drop(self._children, owner["uid"], item=(resource.id, key))
        if resource is PODS and obj["spec"].get("nodeName"):
            _drop(self._pods_on, obj["spec"]["nodeName"], item=key)


def _drop(index: dict[K, dict[V, None]], key: K, *, item: V) -> None:
    """Take one entry out of an index, and the key with its last entry."""
    entries = index.get(key)
    if entries is None:
        return
    entries.pop(item, None)
    if not entries:
        del index[key]
