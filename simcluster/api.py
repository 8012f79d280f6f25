"""The Kubernetes API: from a request to an answer, whatever carries them."""

from simcluster import errors, logs, parts
from simcluster.discovery import document
from simcluster.objects import Obj, Stored, name_of, namespace_of, uid_of
from simcluster.reads import Reader, selection
from simcluster.removal import Removal
from simcluster.requests import Request, Response, Target, json_response, parse_target
from simcluster.resources import PODS
from simcluster.reviews import REVIEW, review_of
from simcluster.watches import Watches
from simcluster.world import World
from simcluster.writes import Writer, write_of

_PROPAGATIONS = ("", "Background", "Foreground", "Orphan")


class Api:
    """All verbs on all kinds of object of one simulated cluster."""

    def __init__(self, world: World, *, address: str = "") -> None:
        self._world = world
        self._address = address
        self._reader = Reader(world)
        self.writer = Writer(world)
        self.watches = Watches(world)

    def handle(self, request: Request) -> Response:
        """The answer to a request; raises ApiError for a refusal."""
        if request.method == "GET":
            found = document(request.path, address=self._address)
            if found is not None:
                return json_response(found)
        if (request.method, request.path) == ("POST", REVIEW):
            return json_response(review_of(request.object()), 201)
        target = parse_target(request.path)
        if target.part in {"binding", "eviction", "log"}:
            return self._handle_part(request, target)
        if not target.name:
            return self._handle_many(request, target)
        return self._handle_one(request, target)

    def _handle_many(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            if request.flag("watch"):
                return self.watches.open(request, target)
            return self._reader.list(request, target)
        if request.method == "POST" and (target.namespace or not target.resource.namespaced):
            made = self.writer.create(target, request.object(), write=write_of(request, target))
            return self._reader.show(request, target.resource, made, code=201)
        if request.method == "DELETE":
            return self._delete_many(request, target)
        raise errors.method_not_allowed()

    def _handle_one(self, request: Request, target: Target) -> Response:
        resource = target.resource
        if request.method == "GET":
            if request.flag("watch"):
                return self.watches.open(request, target)
            found = self.writer.find(target)
            return self._reader.show(request, resource, found, code=200)
        if request.method == "PUT":
            body = request.object()
            kept = self.writer.update(target, lambda _old: body, write=write_of(request, target))
            return self._reader.show(request, resource, kept, code=200)
        if request.method == "PATCH":
            kept, code = self.writer.patch(target, request)
            return self._reader.show(request, resource, kept, code=code)
        if request.method == "DELETE" and not target.part:
            return self._delete_one(request, target)
        raise errors.method_not_allowed()

    def _handle_part(self, request: Request, target: Target) -> Response:
        pod = self.writer.find(target)
        if target.part == "log":
            if request.method != "GET":
                raise errors.method_not_allowed()
            return logs.log_of(self._world, pod, request)
        if request.method != "POST":
            raise errors.method_not_allowed()
        if target.part == "binding":
            parts.bind_pod(self._world, pod, request.object(), dry_run=request.is_dry_run)
        elif not request.is_dry_run:
            parts.evict_pod(self._world, pod, request.object())
        return json_response(_success(None), 201)

    def _delete_one(self, request: Request, target: Target) -> Response:
        options = request.object() if request.body else {}
        obj = self.writer.find(target)
        how = removal_of(request, options)
        if request.is_dry_run or options.get("dryRun"):
            return json_response(_success(None))
        left = self.writer.delete(target, how, preconditions=options.get("preconditions") or {})
        if left is not None or target.resource is PODS:
            return self._reader.show(request, target.resource, left or obj, code=200)
        return json_response(_success(target, obj))

    def _delete_many(self, request: Request, target: Target) -> Response:
        options = request.object() if request.body else {}
        how, matches = removal_of(request, options), selection(request, target.resource)
        for obj in self._world.store.all(target.resource, target.namespace):
            if matches(obj) and not request.is_dry_run:
                one = Target(
                    resource=target.resource, namespace=namespace_of(obj), name=name_of(obj)
                )
                self.writer.delete(one, how, preconditions={})
        return self._reader.list(request, target)


def removal_of(request: Request, options: Obj) -> Removal:
    """How to delete, from the query and the DeleteOptions of a request."""
    propagation = request.query.get("propagationPolicy") or options.get("propagationPolicy") or ""
    orphan = options.get("orphanDependents")
    if orphan is not None and not propagation:
        propagation = "Orphan" if orphan else "Background"
    if propagation not in _PROPAGATIONS:
        raise errors.bad_request(f"{propagation} is no propagation policy")
    grace = request.number("gracePeriodSeconds")
    grace = options.get("gracePeriodSeconds") if grace is None else grace
    return Removal(grace_seconds=grace, propagation=propagation)


def _success(target: Target | None, obj: Stored | None = None) -> Obj:
    status: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if target is None or obj is None:
        return {**status, "code": 201} if target is None else status
    details = {"name": target.name, "kind": target.resource.plural, "uid": uid_of(obj)}
    if target.resource.group:
        details["group"] = target.resource.group
    return {**status, "details": details}
