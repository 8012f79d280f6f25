"""The garbage collector: dependents follow their owners, namespaces take their contents along."""

from simcluster import removal
from simcluster.objects import Obj, Stored, is_deleting, name_of, namespace_of, uid_of
from simcluster.removal import FOREGROUND, ORPHAN, Removal
from simcluster.resources import NAMESPACES, RESOURCES, Resource
from simcluster.store import Event
from simcluster.world import World

_BACKGROUND = Removal(propagation="Background")


class GarbageCollector:
    """Notes owners that went or are going, new dependents, and namespaces that end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owners: dict[str, None] = {}
        self._dependents: dict[str, None] = {}
        self._namespaces: dict[str, None] = {}

    def seen(self, event: Event) -> None:
        metadata = event.obj["metadata"]
        if event.kind == "DELETED":
            self._owners[uid_of(event.obj)] = None
            for owner in metadata.get("ownerReferences") or ():
                self._owners[owner["uid"]] = None
            if namespace_of(event.obj):
                self._note_namespace(namespace_of(event.obj))
        elif is_deleting(event.obj):
            self._owners[uid_of(event.obj)] = None
            if event.resource is NAMESPACES:
                self._namespaces[name_of(event.obj)] = None
        elif metadata.get("ownerReferences") and event.kind == "ADDED":
            self._dependents[uid_of(event.obj)] = None

    def act(self) -> bool:
        owners, self._owners = self._owners, {}
        dependents, self._dependents = self._dependents, {}
        namespaces, self._namespaces = self._namespaces, {}
        for uid in owners:
            self._look_at_owner(uid)
        for uid in dependents:
            self._look_at_dependent(uid)
        for name in namespaces:
            self._empty_namespace(name)
        return bool(owners or dependents or namespaces)

    def _note_namespace(self, name: str) -> None:
        namespace = self._world.store.get(NAMESPACES, "", name)
        if namespace is not None and is_deleting(namespace):
            self._namespaces[name] = None

    def _look_at_owner(self, uid: str) -> None:
        store = self._world.store
        found = store.by_uid(uid)
        if found is None:
            for resource, child in store.children(uid):
                self._drop_or_disown(resource, child)
            return
        resource, owner = found
        finalizers = owner["metadata"].get("finalizers") or []
        if not is_deleting(owner):
            return
        if ORPHAN in finalizers:
            self._orphan_children(uid)
            self._take_finalizer(resource, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            self._delete_in_foreground(resource, owner)

    def _look_at_dependent(self, uid: str) -> None:
        found = self._world.store.by_uid(uid)
        if found is not None:
            self._drop_or_disown(*found)

    def _drop_or_disown(self, resource: Resource, child: Stored) -> None:
        """Delete a dependent none of whose owners is left."""
        store = self._world.store
        owners = child["metadata"].get("ownerReferences") or []
        if any(store.by_uid(owner["uid"]) is not None for owner in owners):
            return
        if not is_deleting(child):
            removal.begin(self._world, resource, child, how=_BACKGROUND)

    def _orphan_children(self, uid: str) -> None:
        def disown(new: Obj) -> None:
            owners = [o for o in new["metadata"]["ownerReferences"] if o["uid"] != uid]
            new["metadata"]["ownerReferences"] = owners
            if not owners:
                del new["metadata"]["ownerReferences"]

        for resource, child in self._world.store.children(uid):
            self._world.store.change(resource, child, disown)

    def _delete_in_foreground(self, resource: Resource, owner: Stored) -> None:
        children = self._world.store.children(uid_of(owner))
        if not children:
            self._take_finalizer(resource, owner, FOREGROUND)
            return
        for kind, child in children:
            if not is_deleting(child):
                how = Removal(propagation="Foreground" if self._has_children(child) else "")
                removal.begin(self._world, kind, child, how=how)

    def _has_children(self, obj: Stored) -> bool:
        return bool(self._world.store.children(uid_of(obj)))

    def _take_finalizer(self, resource: Resource, obj: Stored, finalizer: str) -> None:
        def take(new: Obj) -> None:
            finalizers = [f for f in new["metadata"].get("finalizers") or [] if f != finalizer]
            new["metadata"]["finalizers"] = finalizers
            if not finalizers:
                del new["metadata"]["finalizers"]

        left = self._world.store.change(resource, obj, take)
        removal.finish_if_free(self._world, resource, left)

    def _empty_namespace(self, name: str) -> None:
        store = self._world.store
        namespace = store.get(NAMESPACES, "", name)
        if namespace is None:
            return
        left = 0
        for resource in RESOURCES:
            for obj in store.all(resource, name) if resource.namespaced else ():
                if not is_deleting(obj):
                    removal.begin(self._world, resource, obj, how=_BACKGROUND)
                left += store.get(resource, name, name_of(obj)) is not None
        if not left:
            self._finalize_namespace(namespace)

    def _finalize_namespace(self, namespace: Stored) -> None:
        def release(new: Obj) -> None:
            new["spec"] = {**new["spec"], "finalizers": []}

        left = self._world.store.change(NAMESPACES, namespace, release)
        removal.finish_if_free(self._world, NAMESPACES, left)
