"""Whether a manifest has the shape that later code relies on; a real server decodes no other."""

from typing import Any

from simcluster.errors import bad_request
from simcluster.objects import Obj
from simcluster.resources import JOBS, PODS, Resource

_LISTS = ("initContainers", "tolerations", "schedulingGates", "volumes")
_MAPS = ("nodeSelector", "affinity", "securityContext")


def check_shape(resource: Resource, obj: Obj) -> None:
    """Raise 400 for an object whose parts are of the wrong kind, as for one that is no JSON."""
    metadata = _map(obj, "metadata", "")
    for name in ("labels", "annotations"):
        _map(metadata, name, "metadata.")
    for name in ("finalizers", "ownerReferences"):
        _list(metadata, name, "metadata.")
    if resource is PODS:
        _check_pod_spec(_map(obj, "spec", ""), "spec.")
    elif resource is JOBS:
        template = _map(_map(obj, "spec", ""), "template", "spec.")
        inner = _map(template, "metadata", "spec.template.")
        for name in ("labels", "annotations"):
            _map(inner, name, "spec.template.metadata.")
        _check_pod_spec(_map(template, "spec", "spec.template."), "spec.template.spec.")


def _check_pod_spec(spec: Obj, at: str) -> None:
    for name in _LISTS:
        for item in _list(spec, name, at):
            _expect(item, dict, f"{at}{name}")
    for name in _MAPS:
        _map(spec, name, at)
    for container in [*_list(spec, "containers", at), *_list(spec, "initContainers", at)]:
        _expect(container, dict, f"{at}containers")
        resources = _map(container, "resources", f"{at}containers.")
        for name in ("limits", "requests"):
            _map(resources, name, f"{at}containers.resources.")
        for name in ("command", "args", "env", "ports"):
            _list(container, name, f"{at}containers.")


def _map(obj: Obj, name: str, at: str) -> Obj:
    value = obj.get(name)
    _expect({} if value is None else value, dict, f"{at}{name}")
    return value or {}


def _list(obj: Obj, name: str, at: str) -> list[Any]:
    value = obj.get(name)
    _expect([] if value is None else value, list, f"{at}{name}")
    return value or []


def _expect(value: Any, kind: type, field: str) -> None:
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise bad_request(f"the manifest cannot be read: {field} must be {wanted}")
