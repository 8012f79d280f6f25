"""JSON patch, merge patch and strategic merge patch: the object a patch makes of another."""

from typing import Any

from simcluster.errors import ApiError, bad_request, unprocessable, without_merge_key
from simcluster.objects import Obj, clone

# Lists that a strategic merge joins by a key of their items; every other list is replaced whole.
MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "schedulingGates": ("name",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "secrets": ("name",),
}
# Lists of plain values that a strategic merge adds to.
MERGED_VALUES = frozenset({"finalizers"})

_DIRECTIVE = "$patch"
_DELETE_VALUES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null takes away, objects are merged, all else replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Obj, patch: Obj) -> Obj:
    """Kubernetes' strategic merge, with its directives; raises 400 for one it does not know."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return clone({key: value for key, value in patch.items() if key != _DIRECTIVE})
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"unknown directive {directive!r} in a strategic merge patch")
    result = _retained(target, patch)
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(result, key, value=value)
    for key, value in patch.items():
        if key.startswith(_DELETE_VALUES):
            name = key.removeprefix(_DELETE_VALUES)
            result[name] = [item for item in result.get(name) or [] if item not in value]
        if key.startswith(_ORDER):
            _reorder(result, key.removeprefix(_ORDER), order=value)
    return result


def json_patch(target: Obj, operations: list[Obj]) -> Obj:
    """RFC 6902, done to `target` itself; raises 422 when a test fails or a path is missing, 400
    for what is no patch at all.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    document: Any = target
    for operation in operations:
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise unprocessable()
    return document


def _retained(target: Obj, patch: Obj) -> Obj:
    if _RETAIN not in patch:
        return dict(target)
    return {key: value for key, value in target.items() if key in patch[_RETAIN]}


def _merge_field(result: Obj, key: str, *, value: Any) -> None:
    if value is None:
        result.pop(key, None)
        return
    old = result.get(key)
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            result.pop(key, None)
        else:
            result[key] = strategic(old if isinstance(old, dict) else {}, value)
    elif isinstance(value, list):
        result[key] = _merge_list(key, old if isinstance(old, list) else [], patch=value)
    else:
        result[key] = value


def _merge_list(field: str, old: list[Any], *, patch: list[Any]) -> list[Any]:
    if field in MERGED_VALUES:
        return old + [item for item in patch if item not in old]
    keys = MERGE_KEYS.get(field)
    if keys is None or any(not isinstance(item, dict) for item in [*old, *patch]):
        return clone(patch)
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return clone([item for item in patch if item.get(_DIRECTIVE) != "replace"])
    result = list(old)
    for item in patch:
        key = merge_key(keys, item)
        if key is None:
            raise without_merge_key(item, keys[0])
        _merge_item(result, item, key=key)
    return result


def merge_key(keys: tuple[str, ...], item: Obj) -> str | None:
    """The first of `keys` that the item has: `ports` is joined differently in pods and services."""
    return next((key for key in keys if key in item), None)


def _merge_item(items: list[Any], item: Obj, *, key: str) -> None:
    at = next((i for i, other in enumerate(items) if other.get(key) == item[key]), None)
    if item.get(_DIRECTIVE) == "delete":
        if at is not None:
            del items[at]
    elif at is None:
        items.append(strategic({}, item))
    else:
        items[at] = strategic(items[at], item)


def _reorder(result: Obj, name: str, *, order: list[Any]) -> None:
    items = result.get(name)
    if not isinstance(items, list):
        return
    keys = MERGE_KEYS.get(name)

    def place(item: Any) -> int:
        for position, wanted in enumerate(order):
            key = merge_key(keys, wanted) if keys and isinstance(wanted, dict) else None
            if item == wanted or (key and item.get(key) == wanted[key]):
                return position
        return len(order)

    result[name] = sorted(items, key=place)


def _operate(document: Any, operation: Obj) -> Any:
    name = operation.get("op")
    path = _pointer(operation.get("path"))
    if name == "test":
        if _look_up(document, path) != operation.get("value"):
            raise unprocessable()
        return document
    if name == "remove":
        return _remove(document, path)
    if name in {"add", "replace"}:
        if "value" not in operation:
            raise unprocessable()
        value = clone(operation["value"])
        return _add(document, path, value=value, replace=name == "replace")
    if name in {"move", "copy"}:
        source = _pointer(operation.get("from"))
        value = clone(_look_up(document, source))
        if name == "move":
            document = _remove(document, source)
        return _add(document, path, value=value, replace=False)
    raise unprocessable()


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _look_up(document: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document))]
        else:
            raise unprocessable()
    return document


def _index(part: str, length: int) -> int:
    if not part.isdecimal() or int(part) >= length:
        raise unprocessable()
    return int(part)


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise unprocessable()
    parent = _look_up(document, path[:-1])
    _look_up(parent, path[-1:])
    del parent[_index(path[-1], len(parent)) if isinstance(parent, list) else path[-1]]
    return document


def _add(document: Any, path: list[str], *, value: Any, replace: bool) -> Any:
    if not path:
        return value
    parent, last = _look_up(document, path[:-1]), path[-1]
    if replace:
        _look_up(parent, [last])
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        at = len(parent) if last == "-" and not replace else _index(last, len(parent) + 1)
        parent[at : at + int(replace)] = [value]
    else:
        raise unprocessable()
    return document


def apply_patch(current: Obj, body: Any, *, media_type: str) -> Obj:
    """The object that `body` makes of `current`, a copy that may be used up; the media type says
    how the patch is to be read.
    """
    if media_type == "application/json-patch+json":
        return json_patch(current, body)
    if not isinstance(body, dict):
        raise bad_request("the patch must be an object")
    if media_type == "application/merge-patch+json":
        return dict(merge(current, body))
    if media_type == "application/strategic-merge-patch+json":
        return strategic(current, body)
    raise ApiError(415, "UnsupportedMediaType", message=f"no patch of type {media_type}")
