"""Create, update, patch and delete: what the API server does to an object before it is kept."""

from collections.abc import Callable
from dataclasses import dataclass

from simcluster import apply, errors, removal
from simcluster.defaults import admit, admit_changed_pod, fill_in, fill_in_status
from simcluster.errors import Cause
from simcluster.objects import (
    Obj,
    Stored,
    clone,
    controller_of,
    is_deleting,
    name_of,
    namespace_of,
    uid_of,
)
from simcluster.patch import apply_patch
from simcluster.removal import Removal
from simcluster.requests import Request, Target
from simcluster.resources import JOBS, NAMESPACES, PODS, SERVICES, Resource
from simcluster.shapes import check_shape
from simcluster.validate import (
    metadata_causes,
    new_pod_causes,
    pod_update_causes,
    service_update_causes,
)
from simcluster.validate_jobs import job_status_causes, job_update_causes, new_job_causes
from simcluster.world import World

APPLY = "application/apply-patch+yaml"
PATCHES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
]
# Kept from the stored object whatever a writer sends.
_OURS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_WITH_SPEC = frozenset({PODS, JOBS})
_GENERATED_LIMIT = 58
CONTROLLER = "kube-controller-manager"
_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)

Change = Callable[[Obj], Obj]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Who writes, and whether it is only tried."""

    manager: str = "simcluster"
    operation: str = "Update"
    part: str = ""
    dry_run: bool = False


def write_of(request: Request, target: Target) -> Write:
    return Write(manager=request.manager(), part=target.part, dry_run=request.is_dry_run)


class Writer:
    """The write half of the API."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._noted: tuple[str, list[Obj]] = ("", [])  # owner's version, its pods' managed fields

    def create(self, target: Target, body: Obj, *, write: Write) -> Stored:
        """The object as it is kept (or would be, on a dry run)."""
        resource = target.resource
        obj = self._new(target, body)
        fill_in(resource, obj)
        if write.operation != "Apply":
            self._track_new(obj, write)
        admit(self._world, resource, obj)
        causes = metadata_causes(obj) + _new_causes(resource, obj)
        if causes:
            raise errors.invalid(resource, name_of(obj), causes=causes)
        if self._world.store.get(resource, namespace_of(obj), name_of(obj)):
            raise errors.already_exists(resource, name_of(obj))
        return Stored(obj) if write.dry_run else self._world.store.put(resource, obj)

    def _track_new(self, obj: Obj, write: Write) -> None:
        """Note that all fields are the writer's; pods made for one Job in a row share the note."""
        at, owner = self._world.clock.stamp(), controller_of(obj)
        version = "" if owner is None else self._world.store.version_of(owner["uid"])
        if not version or write.manager != CONTROLLER or version != self._noted[0]:
            apply.track(obj, None, write=(write.manager, write.part), at=at)
            self._noted = (version, obj["metadata"].get("managedFields", []))
        else:
            obj["metadata"]["managedFields"] = [{**entry, "time": at} for entry in self._noted[1]]

    def create_quietly(self, obj: Obj) -> Stored | None:
        """For controllers: the pod as it is kept, or None when the API refuses it."""
        target = Target(resource=PODS, namespace=namespace_of(obj))
        try:
            return self.create(target, obj, write=Write(manager=CONTROLLER))
        except errors.ApiError:
            return None

    def update(self, target: Target, change: Change, *, write: Write) -> Stored:
        """The object after `change`, which is given a copy and returns what is wanted."""
        resource = target.resource
        old = self.find(target)
        new = change(_private_copy(old))
        check_shape(resource, new)
        self._check_identity(target, old, new)
        new["metadata"] = _kept_metadata(new, old)
        if write.part == "status":
            new = {**old, "metadata": new["metadata"], "status": new.get("status", {})}
            fill_in_status(resource, new, at=self._world.clock.stamp())
        elif resource.has_status:
            new["status"] = old.get("status", {})
        if resource in _WITH_SPEC and not isinstance(new.get("spec"), dict):
            raise errors.invalid(resource, target.name, causes=[errors.required_field("spec")])
        if write.part != "status":
            fill_in(resource, new)
        if resource is PODS and not write.part:
            admit_changed_pod(new)
        if new == old:
            return old
        self._check_update(resource, new, old, part=write.part)
        if new.get("spec") != old.get("spec") and "generation" in old["metadata"]:
            new["metadata"]["generation"] += 1
        if write.operation != "Apply":
            stamp = self._world.clock.stamp()
            apply.track(new, old, write=(write.manager, write.part), at=stamp)
        if write.dry_run:
            return Stored(new)
        kept = self._world.store.put(resource, new)
        removal.finish_if_free(self._world, resource, kept)
        return kept

    def patch(self, target: Target, request: Request) -> tuple[Stored, int]:
        """The object after a patch, and 201 when a server-side apply made it, else 200."""
        media_type = request.media_type()
        if media_type not in PATCHES:
            raise errors.unsupported_media_type(media_type, accepted=PATCHES)
        if media_type == APPLY:
            return self._apply(target, request)
        body = request.json()

        def change(old: Obj) -> Obj:
            return apply_patch(old, body, media_type=media_type)

        return self.update(target, change, write=write_of(request, target)), 200

    def delete(self, target: Target, how: Removal, *, preconditions: Obj) -> Stored | None:
        """Begin to delete; None when the object went at once."""
        obj = self.find(target)
        self._check_preconditions(target, obj, preconditions)
        return removal.begin(self._world, target.resource, obj, how=how)

    def find(self, target: Target) -> Stored:
        """The stored object; 404 when there is none."""
        found = self._world.store.get(target.resource, target.namespace, target.name)
        if found is None:
            raise errors.not_found(target.resource, target.name)
        return found

    def _apply(self, target: Target, request: Request) -> tuple[Stored, int]:
        applied = request.object()
        manager = request.query.get("fieldManager")
        if not manager:
            message = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value'
            raise errors.ApiError(422, "Invalid", message=message)
        stamp = self._world.clock.stamp()
        write = Write(
            manager=manager, operation="Apply", part=target.part, dry_run=request.is_dry_run
        )
        order = apply.Order(
            manager=manager, force=request.flag("force"), at=stamp, part=target.part
        )
        if self._world.store.get(target.resource, target.namespace, target.name) is None:
            applied.setdefault("metadata", {}).setdefault("name", target.name)
            made = apply.merged({"metadata": {}}, applied, order=order)
            return self.create(target, made, write=write), 201

        def change(old: Obj) -> Obj:
            return apply.merged(old, applied, order=order)

        return self.update(target, change, write=write), 200

    def _new(self, target: Target, body: Obj) -> Obj:
        """A new object with our own metadata; refuses what no object may be."""
        resource, obj = target.resource, clone(body)
        _check_kind(resource, obj)
        check_shape(resource, obj)
        metadata = obj.setdefault("metadata", {})
        namespace = metadata.get("namespace") or target.namespace
        if resource.namespaced and namespace != target.namespace:
            raise errors.bad_request(_OTHER_NAMESPACE)
        if metadata.get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        name = self._name(resource, metadata)
        if resource.namespaced:
            self._check_namespace(resource, target.namespace, name=name)
        given = {k: v for k, v in metadata.items() if v is not None and k not in _OURS}
        ours = self._world.new_metadata(name, namespace=namespace if resource.namespaced else "")
        managed = (
            {"managedFields": given.pop("managedFields", [])} if "managedFields" in given else {}
        )
        obj["metadata"] = {**given, **ours, **managed}
        if resource in {PODS, JOBS}:
            obj["metadata"]["generation"] = 1
            if not isinstance(obj.get("spec"), dict):
                cause = errors.required_field("spec")
                raise errors.invalid(resource, name, causes=[cause])
        return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}

    def _name(self, resource: Resource, metadata: Obj) -> str:
        name = metadata.get("name")
        if not name and metadata.get("generateName"):
            name = f"{metadata['generateName'][:_GENERATED_LIMIT]}{self._world.suffix()}"
        if not name:
            cause = errors.required_field("metadata.name", "name or generateName is required")
            raise errors.invalid(resource, "", causes=[cause])
        return str(name)

    def _check_namespace(self, resource: Resource, namespace: str, *, name: str) -> None:
        found = self._world.store.get(NAMESPACES, "", namespace)
        if found is None:
            raise errors.not_found(NAMESPACES, namespace)
        if is_deleting(found):
            why = (
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
            raise errors.forbidden(resource, name, why=why)

    def _check_identity(self, target: Target, old: Stored, new: Obj) -> None:
        resource, metadata = target.resource, new.get("metadata")
        _check_kind(resource, new)
        if not isinstance(metadata, dict) or metadata.get("name", target.name) != target.name:
            message = "the name of the object does not match the name on the URL"
            raise errors.bad_request(message)
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise errors.bad_request(_OTHER_NAMESPACE)
        version = metadata.get("resourceVersion") or old["metadata"]["resourceVersion"]
        if version != old["metadata"]["resourceVersion"]:
            raise errors.modified(resource, target.name)
        if (metadata.get("uid") or uid_of(old)) != uid_of(old):
            cause = errors.immutable_field("metadata.uid", metadata["uid"])
            raise errors.invalid(resource, target.name, causes=[cause])

    def _check_update(self, resource: Resource, new: Obj, old: Obj, *, part: str) -> None:
        causes = metadata_causes(new)
        if part != "status":
            causes += _update_causes(resource, new, old)
        elif resource is JOBS:
            causes += job_status_causes(new)
        before = set(old["metadata"].get("finalizers") or [])
        added = set(new["metadata"].get("finalizers") or []) - before
        if is_deleting(old) and added:
            text = (
                "no new finalizers can be added if the object is being deleted, found "
                f"{sorted(added)}"
            )
            causes.append(errors.forbidden_field("metadata.finalizers", text))
        if causes:
            raise errors.invalid(resource, name_of(old), causes=causes)

    def _check_preconditions(self, target: Target, obj: Stored, wanted: Obj) -> None:
        for field in ("uid", "resourceVersion"):
            value = wanted.get(field)
            have = obj["metadata"][field]
            if value is not None and value != have:
                name = "UID" if field == "uid" else "ResourceVersion"
                why = (
                    f"Precondition failed: {name} in precondition: {value}, {name} in object "
                    f"meta: {have}"
                )
                raise errors.conflict(target.resource, target.name, why=why)


def _private_copy(old: Stored) -> Obj:
    """A deep copy, save for the managed fields, which are replaced and never changed."""
    managed = old["metadata"].get("managedFields")
    metadata = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    new = clone({**old, "metadata": metadata})
    if managed is not None:
        new["metadata"]["managedFields"] = managed
    return new


def _check_kind(resource: Resource, obj: Obj) -> None:
    kind = obj.get("kind", resource.kind)
    version = obj.get("apiVersion", resource.api_version)
    if (version, kind) != (resource.api_version, resource.kind):
        message = (
            f"{kind} in version {version!r} cannot be handled as a {resource.kind}: expected "
            f"{resource.api_version}"
        )
        raise errors.bad_request(message)


def _kept_metadata(new: Obj, old: Obj) -> Obj:
    """The writer's metadata, with what is not his to change taken from the stored object."""
    metadata = {key: value for key, value in new["metadata"].items() if value is not None}
    for field in (*_OURS, "uid", "name", "namespace", "resourceVersion", "generation"):
        metadata.pop(field, None)
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
    if "managedFields" not in metadata and "managedFields" in old["metadata"]:
        metadata["managedFields"] = old["metadata"]["managedFields"]
    return metadata


def _new_causes(resource: Resource, obj: Obj) -> list[Cause]:
    if resource is PODS:
        return new_pod_causes(obj)
    return new_job_causes(obj) if resource is JOBS else []


def _update_causes(resource: Resource, new: Obj, old: Obj) -> list[Cause]:
    if resource is PODS:
        return pod_update_causes(new, old)
    if resource is JOBS:
        return job_update_causes(new, old)
    if resource is SERVICES:
        return service_update_causes(new, old)
    return []
